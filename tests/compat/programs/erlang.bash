# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Erlang: two nodes that find each other by epmd, large terms and calls between them, a node that goes; gen_tcp with its packet types, passive and active, half-close, timeouts, resets, sendfile"
PACKAGES=(erlang-base)
LIMIT=120

programs() {
	cat >server.erl <<-'END'
	-module(server).
	-export([start/1]).

	start([Host]) ->
	    {ok, Ip} = inet:parse_address(Host),
	    Common = [binary, {ip, Ip}, {reuseaddr, true}, {backlog, 200}, {active, false}, {exit_on_close, false}],
	    [spawn(fun() -> accept(listen(P, O ++ Common), F) end) || {P, O, F} <- [
	        {7001, [{packet, 4}], echo}, {7002, [{packet, line}], echo}, {7003, [{packet, raw}], digest},
	        {7004, [{packet, raw}], silent}, {7005, [{packet, raw}], reset}, {7006, [{packet, http_bin}], take}]],
	    ok.

	listen(Port, Options) -> {ok, L} = gen_tcp:listen(Port, Options), L.

	accept(L, F) ->
	    {ok, S} = gen_tcp:accept(L),
	    Pid = spawn(fun() -> receive go -> serve(F, S) end end),
	    gen_tcp:controlling_process(S, Pid),
	    Pid ! go,
	    accept(L, F).

	serve(echo, S) -> inet:setopts(S, [{active, once}]), echo(S);
	serve(digest, S) -> digest(S, erlang:md5_init());
	serve(silent, _) -> receive never -> ok end;
	serve(reset, S) -> gen_tcp:recv(S, 0), inet:setopts(S, [{linger, {true, 0}}]), gen_tcp:close(S);
	serve(take, S) -> take(S).

	echo(S) ->
	    receive
	        {tcp, S, Data} -> gen_tcp:send(S, Data), inet:setopts(S, [{active, once}]), echo(S);
	        {tcp_closed, S} -> ok;
	        {tcp_error, S, _} -> ok
	    end.

	digest(S, Sum) ->
	    case gen_tcp:recv(S, 0, 20000) of
	        {ok, Data} -> digest(S, erlang:md5_update(Sum, Data));
	        {error, closed} -> gen_tcp:send(S, erlang:md5_final(Sum)), gen_tcp:close(S)
	    end.

	take(S) ->
	    {ok, Request} = gen_tcp:recv(S, 0, 10000),
	    gen_tcp:send(S, io_lib:format("~p", [Request])),
	    gen_tcp:close(S).
	END
	cat >client.erl <<-'END'
	-module(client).
	-export([start/1]).

	show(Name, F) ->
	    Value = try F() catch C:E -> {C, E} end,
	    io:format("~s\t~0p~n", [Name, Value]).

	connect(Port, Options) -> gen_tcp:connect(get(host), Port, [binary, {active, false} | Options], 10000).

	start([Name, Node]) ->
	    {ok, Ip} = inet:parse_address(Name),
	    put(host, Ip),
	    {ok, Large} = file:read_file("large"),
	    Sum = erlang:md5(Large),
	    There = list_to_atom(Node),
	    show("ping", fun() -> net_adm:ping(There) end),
	    show("call", fun() -> rpc:call(There, erlang, md5, [Large]) =:= Sum end),
	    show("calls", fun() -> lists:usort([rpc:call(There, erlang, abs, [-5]) || _ <- lists:seq(1, 500)]) end),
	    show("parallel", fun() -> lists:sum(rpc:pmap({erlang, abs}, [], lists:seq(-200, 0))) end),
	    show("node", fun() ->
	        Self = self(),
	        Pid = spawn(There, fun() -> receive {From, T} -> From ! {self(), byte_size(T)} end end),
	        Pid ! {Self, Large},
	        receive {Pid, N} -> N after 20000 -> nothing end end),
	    show("packets", fun() ->
	        {ok, S} = connect(7001, [{packet, 4}]),
	        Good = [begin ok = gen_tcp:send(S, binary:part(Large, 0, N)), {ok, B} = gen_tcp:recv(S, 0, 10000), B =:= binary:part(Large, 0, N) end
	            || N <- [1, 100, 10000, 1000000, 3000000]],
	        gen_tcp:close(S), lists:usort(Good) end),
	    show("lines", fun() ->
	        {ok, S} = connect(7002, [{packet, line}]),
	        Good = [begin L = integer_to_binary(N), ok = gen_tcp:send(S, [L, "\n"]), {ok, B} = gen_tcp:recv(S, 0, 10000), B =:= <<L/binary, "\n">> end
	            || N <- lists:seq(1, 500)],
	        gen_tcp:close(S), lists:usort(Good) end),
	    show("half", fun() ->
	        {ok, S} = connect(7003, []),
	        ok = gen_tcp:send(S, Large), ok = gen_tcp:shutdown(S, write),
	        {ok, D} = gen_tcp:recv(S, 16, 20000), {D =:= Sum, gen_tcp:recv(S, 0, 5000)} end),
	    show("sendfile", fun() ->
	        {ok, S} = connect(7003, []),
	        {ok, N} = file:sendfile("large", S), ok = gen_tcp:shutdown(S, write),
	        {ok, D} = gen_tcp:recv(S, 16, 20000), {N, D =:= Sum} end),
	    show("timeout", fun() -> {ok, S} = connect(7004, []), gen_tcp:recv(S, 0, 200) end),
	    show("send.timeout", fun() ->
	        {ok, S} = connect(7004, [{send_timeout, 500}, {send_timeout_close, true}]),
	        Big = binary:copy(<<0>>, 40000000),
	        {gen_tcp:send(S, Big), gen_tcp:send(S, Big)} end),
	    show("reset", fun() -> {ok, S} = connect(7005, [{show_econnreset, true}]), gen_tcp:send(S, "x"), gen_tcp:recv(S, 0, 10000) end),
	    show("reset.active", fun() ->
	        {ok, S} = connect(7005, [{show_econnreset, true}, {active, true}]), gen_tcp:send(S, "x"),
	        receive {tcp_error, S, R} -> R; {tcp_closed, S} -> closed after 10000 -> nothing end end),
	    show("refused", fun() -> connect(1, []) end),
	    show("http", fun() ->
	        {ok, S} = connect(7006, []), gen_tcp:send(S, "GET /path HTTP/1.1\r\nHost: a\r\n\r\n"),
	        {ok, B} = gen_tcp:recv(S, 0, 10000), B end),
	    show("names", fun() ->
	        {ok, S} = connect(7004, []), {ok, {Me, _}} = inet:sockname(S), {inet:peername(S), Me} end),
	    show("options", fun() ->
	        {ok, S} = connect(7004, [{nodelay, true}, {keepalive, true}, {linger, {true, 2}}, {tos, 16}, {priority, 3}]),
	        inet:getopts(S, [nodelay, keepalive, linger, tos, priority, active, packet]) end),
	    show("many", fun() ->
	        Self = self(), Host = get(host),
	        [spawn(fun() -> put(host, Host), {ok, S} = connect(7001, [{packet, 4}]), ok = gen_tcp:send(S, integer_to_binary(N)),
	            {ok, B} = gen_tcp:recv(S, 0, 20000), Self ! {done, B =:= integer_to_binary(N)} end) || N <- lists:seq(1, 150)],
	        lists:usort([receive {done, B} -> B after 20000 -> late end || _ <- lists:seq(1, 150)]) end),
	    show("exact", fun() ->
	        {ok, S} = connect(7001, []),
	        gen_tcp:send(S, <<5:32, "abcde", 3:32, "fgh">>),
	        {ok, A} = gen_tcp:recv(S, 9, 5000), {ok, B} = gen_tcp:recv(S, 7, 5000), {A, B} end),
	    show("gone", fun() ->
	        monitor_node(There, true), rpc:cast(There, erlang, halt, [0]),
	        receive {nodedown, There} -> down after 15000 -> nothing end end),
	    halt(0).
	END
	erlc server.erl client.erl || fault "the programs do not compile"
}

# node NAME ADDRESS: a node's options
node() {
	printf '%s\n' -noinput -name "$1@$2" -setcookie cookie -kernel inet_dist_use_interface "{${2//./,}}" -pa "$DIR"
}

run() {
	local server name value words
	export HOME=$DIR
	random_file large 6000
	programs
	# Each host has its own epmd.
	start_under a epmd >epmd.a.log 2>&1
	local epmd_a=$!
	start_under b epmd >epmd.b.log 2>&1
	local epmd_b=$!
	listening a 4369
	listening b 4369
	mapfile -t words < <(node one "$SERVER")
	start_under a erl "${words[@]}" -run server start "$SERVER" >server.log 2>&1
	server=$!
	listening a 7006
	mapfile -t words < <(node two "$CLIENT")
	under b erl "${words[@]}" -run client start "$SERVER" "one@$SERVER" >client.out 2>client.log
	result client "$? $(tail -n 1 client.log)"
	while IFS=$'\t' read -r name value; do
		result "$name" "$value"
	done <client.out
	wait "$server"
	result server.ends "$? $(head -n 2 server.log)"
	stop "$epmd_a"
	stop "$epmd_b"
	result epmd.ends "$STATUS"
}
