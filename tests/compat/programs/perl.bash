# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Perl's own tests of its socket calls and of the modules that it comes with (Socket, IO::Socket, IO::Socket::IP, IO::Select, IO::Poll, Net::SMTP, Net::POP3, Net::NNTP, also with TLS; Net::Time, Net::Ping), each one; its listeners on one host, its clients on the other"
PACKAGES=(perl libio-socket-ssl-perl dpkg-dev)
SOURCE=perl
LIMIT=60
# shellcheck source=tests/compat/perl.bash
. "$(dirname "${BASH_SOURCE[0]}")/../perl.bash"

# The tests need no building. Without the directory ext they take Debian's modules, not those of the source; some look
# for their functions where they are in releases of IO alone.
build() {
	rm -r ext
	ln -s ../../../t/test.pl dist/IO/t/
}

run() {
	# Where Net::Ping connects to this address, nobody must answer.
	ip -n "$HOSTS_ID-b" route add 172.29.249.249 via 10.77.0.14
	# Not the tests that need the Internet.
	perl_tests t//io/socket.t cpan/Socket//t/{Socket,sockaddr,socketpair}.t \
		dist/IO//t/{IO,cachepropagate-tcp,io_multihomed,io_poll,io_sel,io_sock,io_sock_errstr}.t \
		cpan/IO-Socket-IP//t/{01local-client-v4,02local-server-v4,03local-cross-v4,04local-client-v6}.t \
		cpan/IO-Socket-IP//t/{05local-server-v6,06local-cross-v6,10args,11sockopts,12port-fallback}.t \
		cpan/IO-Socket-IP//t/{13addrinfo,14fileno,15io-socket,16v6only,18fdopen,19no-addrs,20subclass}.t \
		cpan/IO-Socket-IP//t/{21as-inet,22timeout,30nonblocking-connect}.t \
		cpan/libnet//t/{datasend,time,nntp_ipv6,nntp_ssl,pop3_ipv6,pop3_ssl,smtp_ipv6,smtp_ssl}.t \
		dist/Net-Ping//t/{010_pingecho,130_tcp_inst,140_stream_inst,150_syn_inst,190_alarm,200_ping_tcp}.t \
		dist/Net-Ping//t/300_ping_stream.t
}
