// SPDX-License-Identifier: MIT
// Servers and clients of Java's libraries; the clients print "NAME VALUE" lines. usage: Sockets
// serve|ask ADDRESS. Ports: 8001 HTTP, 8002 HTTPS, 8003 an echo with a selector, 8004 asynchronous
// channels. Reads the key store "keys".

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.security.KeyStore;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509ExtendedTrustManager;

public class Sockets {
	static InetAddress host;

	static byte[] content(long seed, int size) {
		byte[] data = new byte[size];
		new Random(seed).nextBytes(data);
		return data;
	}

	// ---- servers

	static void web(HttpServer server) {
		server.createContext("/", exchange -> {
			byte[] body = exchange.getRequestMethod().equals("POST")
				? exchange.getRequestBody().readAllBytes()
				: content(1, Integer.parseInt(exchange.getRequestURI().getPath().substring(1)));
			exchange.sendResponseHeaders(200, body.length == 0 ? -1 : body.length);
			exchange.getResponseBody().write(body);
			exchange.close();
		});
		server.setExecutor(Executors.newFixedThreadPool(8));
		server.start();
	}

	static SSLContext serverTls() throws Exception {
		KeyStore keys = KeyStore.getInstance("PKCS12");
		keys.load(new FileInputStream("keys"), "secret".toCharArray());
		KeyManagerFactory factory = KeyManagerFactory.getInstance("SunX509");
		factory.init(keys, "secret".toCharArray());
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(factory.getKeyManagers(), null, null);
		return context;
	}

	static void selectorEcho() throws IOException {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();
		listener.bind(new InetSocketAddress(host, 8003));
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		while (true) {
			selector.select(key -> {
				try {
					if (key.isAcceptable()) {
						SocketChannel channel = listener.accept();
						if (channel == null)
							return;
						channel.configureBlocking(false);
						channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(65536));
					} else {
						echo(key);
					}
				} catch (IOException error) {
					key.cancel();
					try {
						key.channel().close();
					} catch (IOException again) {
					}
				}
			});
		}
	}

	static void echo(SelectionKey key) throws IOException {
		SocketChannel channel = (SocketChannel) key.channel();
		ByteBuffer buffer = (ByteBuffer) key.attachment();
		if (key.isReadable()) {
			if (channel.read(buffer) < 0) {
				channel.close();
				return;
			}
			buffer.flip();
		}
		channel.write(buffer);
		if (buffer.hasRemaining()) {
			key.interestOps(SelectionKey.OP_WRITE);
		} else {
			buffer.clear();
			key.interestOps(SelectionKey.OP_READ);
		}
	}

	static void asynchronousEcho() throws IOException {
		AsynchronousServerSocketChannel listener = AsynchronousServerSocketChannel.open();
		listener.bind(new InetSocketAddress(host, 8004));
		listener.accept(null, new CompletionHandler<AsynchronousSocketChannel, Void>() {
			public void completed(AsynchronousSocketChannel channel, Void none) {
				listener.accept(null, this);
				ByteBuffer buffer = ByteBuffer.allocate(65536);
				channel.read(buffer, null, new CompletionHandler<Integer, Void>() {
					boolean writing = false;
					public void completed(Integer count, Void none) {
						if (count < 0) {
							failed(null, none);
							return;
						}
						if (!writing)
							buffer.flip();
						writing = !writing || buffer.hasRemaining();
						if (writing && buffer.hasRemaining()) {
							channel.write(buffer, null, this);
						} else {
							writing = false;
							buffer.clear();
							channel.read(buffer, null, this);
						}
					}
					public void failed(Throwable error, Void none) {
						try {
							channel.close();
						} catch (IOException again) {
						}
					}
				});
			}
			public void failed(Throwable error, Void none) {
			}
		});
	}

	static void serve() throws Exception {
		web(HttpServer.create(new InetSocketAddress(host, 8001), 100));
		HttpsServer secure = HttpsServer.create(new InetSocketAddress(host, 8002), 100);
		secure.setHttpsConfigurator(new HttpsConfigurator(serverTls()));
		web(secure);
		asynchronousEcho();
		selectorEcho();
	}

	// ---- clients

	static SSLContext trusting() throws Exception {
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(null, new TrustManager[] { new X509ExtendedTrustManager() {
			public void checkClientTrusted(X509Certificate[] c, String a) {}
			public void checkServerTrusted(X509Certificate[] c, String a) {}
			public void checkClientTrusted(X509Certificate[] c, String a, Socket s) {}
			public void checkServerTrusted(X509Certificate[] c, String a, Socket s) {}
			public void checkClientTrusted(X509Certificate[] c, String a, javax.net.ssl.SSLEngine e) {}
			public void checkServerTrusted(X509Certificate[] c, String a, javax.net.ssl.SSLEngine e) {}
			public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
		} }, null);
		return context;
	}

	static HttpRequest.Builder request(String base, String path) {
		return HttpRequest.newBuilder(URI.create(base + path));
	}

	static void ask(String kind, String base) throws Exception {
		HttpClient client = HttpClient.newBuilder().sslContext(trusting()).version(HttpClient.Version.HTTP_1_1).build();
		byte[] got = client.send(request(base, "/3000000").build(), HttpResponse.BodyHandlers.ofByteArray()).body();
		System.out.println(kind + ".get " + Arrays.equals(got, content(1, 3000000)));
		byte[] body = content(2, 2000000);
		got = client.send(request(base, "/").POST(HttpRequest.BodyPublishers.ofByteArray(body)).build(),
			HttpResponse.BodyHandlers.ofByteArray()).body();
		System.out.println(kind + ".post " + Arrays.equals(got, body));
		List<CompletableFuture<HttpResponse<byte[]>>> answers = new ArrayList<>();
		for (int i = 1; i <= 40; i++)
			answers.add(client.sendAsync(request(base, "/" + i * 1000).build(), HttpResponse.BodyHandlers.ofByteArray()));
		int right = 0;
		for (int i = 1; i <= 40; i++)
			if (Arrays.equals(answers.get(i - 1).get(20, TimeUnit.SECONDS).body(), content(1, i * 1000)))
				right++;
		System.out.println(kind + ".many " + right);
	}

	static boolean oldEcho(int port, byte[] data) throws Exception {
		try (Socket socket = new Socket()) {
			socket.connect(new InetSocketAddress(host, port), 5000);
			socket.setTcpNoDelay(true);
			socket.setSoTimeout(20000);
			Thread sender = new Thread(() -> {
				try {
					socket.getOutputStream().write(data);
					socket.shutdownOutput();
				} catch (IOException error) {
					System.out.println("send " + error.getMessage());
				}
			});
			sender.start();
			byte[] got = socket.getInputStream().readNBytes(data.length);
			sender.join();
			return Arrays.equals(got, data) && socket.getPort() == port && socket.getInetAddress().equals(host);
		}
	}

	static String timeout() throws Exception {
		try (Socket socket = new Socket(host, 8003)) {
			socket.setSoTimeout(300);
			InputStream in = socket.getInputStream();
			try {
				return "read " + in.read();
			} catch (SocketTimeoutException error) {
				socket.getOutputStream().write(7);
				return "timeout, then " + in.read();
			}
		}
	}

	static String channel() throws Exception {
		SocketChannel channel = SocketChannel.open();
		channel.configureBlocking(false);
		channel.connect(new InetSocketAddress(host, 8003));
		Selector selector = Selector.open();
		channel.register(selector, SelectionKey.OP_CONNECT);
		selector.select(5000);
		boolean connected = channel.finishConnect();
		ByteBuffer out = ByteBuffer.wrap(content(3, 1000000)), in = ByteBuffer.allocate(1000000);
		channel.keyFor(selector).interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
		while (in.hasRemaining() && selector.select(5000) > 0) {
			SelectionKey key = channel.keyFor(selector);
			if (key.isWritable() && channel.write(out) >= 0 && !out.hasRemaining())
				key.interestOps(SelectionKey.OP_READ);
			if (key.isReadable())
				channel.read(in);
			selector.selectedKeys().clear();
		}
		channel.close();
		return connected + " " + Arrays.equals(in.array(), out.array());
	}

	static void askAll() throws Exception {
		ask("http", "http://" + host.getHostAddress() + ":8001");
		ask("https", "https://" + host.getHostAddress() + ":8002");
		System.out.println("selector " + oldEcho(8003, content(4, 4000000)));
		System.out.println("asynchronous " + oldEcho(8004, content(5, 4000000)));
		System.out.println("timeout " + timeout());
		System.out.println("channel " + channel());
		try {
			new Socket(host, 8009).close();
			System.out.println("refused no");
		} catch (IOException error) {
			System.out.println("refused " + error.getMessage());
		}
		int right = 0;
		for (int i = 0; i < 40; i++)
			right += oldEcho(8003, content(i, i * 500 + 1)) ? 1 : 0;
		System.out.println("many " + right);
		System.exit(0);
	}

	public static void main(String[] args) throws Exception {
		System.setProperty("jdk.internal.httpclient.disableHostnameVerification", "true");
		host = InetAddress.getByName(args[1]);
		if (args[0].equals("serve"))
			serve();
		else
			askAll();
	}
}
