%% SPDX-License-Identifier: Apache-2.0
%% Processes that are in known chains of calls, each for as long as it runs; what they are is in judge.py.
-module(chains).
-export([main/0, recursion/1, cycle/1, collected/1, closures/1, mapped/1, sorted/1, caught/1, bifs/1, caller/2, server/0, binaries/1, leaf/1, zero/0]).

main() ->
    file:write_file(os:getenv("PID_FILE", "/oracle/pid"), os:getpid()),
    Server = spawn(fun server/0),
    [spawn(?MODULE, F, [0]) || F <- [recursion, cycle, collected, closures, mapped, sorted, caught, bifs, binaries]],
    spawn(?MODULE, caller, [Server, 0]),
    receive never -> ok end.

%% Of a result that the compiler does not know, so that callers do not become tail calls.
leaf(0) -> ?MODULE:zero();
leaf(N) -> leaf(N - 1).

zero() -> 0.

recursion(N) -> X = recursed(N rem 20), recursion(N + 1 + X).
recursed(0) -> leaf(200);
recursed(N) -> X = recursed(N - 1), X + 1 - 1.

%% Of three functions that call each other in turn: one that is left out shows.
cycle(N) -> X = one(N rem 30), cycle(N + 1 + X).
one(0) -> leaf(100);
one(N) -> X = two(N - 1), X + 1 - 1.
two(0) -> leaf(100);
two(N) -> X = three(N - 1), X + 1 - 1.
three(0) -> leaf(100);
three(N) -> X = one(N - 1), X + 1 - 1.

%% Much garbage, collected at each depth.
collected(N) -> X = garbage(N rem 50), collected(N + 1 + X).
garbage(0) -> 0;
garbage(N) -> L = lists:seq(1, 50), X = garbage(N - 1), X + length(L) - 50.

closures(N) -> F = fun(X) -> Y = leaf(X), Y + 0 end, Z = applied(F), closures(N + Z).
applied(F) -> X = F(200), X + 1 - 1.

mapped(N) -> L = lists:map(fun(X) -> Y = leaf(X), Y + 1 end, [100, 200]), mapped(N + length(L)).

sorted(N) -> L = lists:sort(fun(A, B) -> leaf(20), A =< B end, [9, 2, 7, 1, 8, 3]), sorted(N + length(L)).

caught(N) -> X = try thrown(10) catch throw:V -> V end, caught(N + X).
thrown(0) -> leaf(200), throw(1);
thrown(N) -> X = thrown(N - 1), X + 1.

bifs(N) -> X = called(N), bifs(N + X).
called(N) -> B = term_to_binary(lists:seq(1, 200)), L = binary_to_term(B), M = erlang:md5(B), length(L) + byte_size(M) + (N - N).

caller(Server, N) -> X = asked(Server), caller(Server, N + X).
asked(Server) -> Server ! {self(), 100}, receive {Server, X} -> leaf(100), X end.

server() -> receive {From, N} -> X = served(N), From ! {self(), X} end, server().
served(N) -> X = leaf(N), X + 1.

binaries(N) -> B = built(N), binaries(N + byte_size(B)).
built(N) -> B = << <<(X + N - N):16>> || X <- lists:seq(1, 50) >>, leaf(100), B.
