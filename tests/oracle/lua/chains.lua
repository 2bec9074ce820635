-- SPDX-License-Identifier: Apache-2.0
--
-- Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost function. Writes
-- what a profiler must see of each (the truth, in the form that ../python/chains.py has) before it begins.
--
--	lua chains.lua TRUTH PID
--
-- A situation is a file of its own, as far as Lua knows: it returns a function, which is run once while its innermost function asks
-- debug.getinfo(): that is its chain. "-- native" behind a call says that native code stands between it and the function called
-- ("-- native in Lua": not in LuaJIT, whose interpreter calls functions, metamethods and coroutines without any);
-- "-- since 5.4": Lua has it from that version on.
local SITUATIONS = [==[
--- s01_recursion
local function recurse(depth)
	local x
	if depth == 0 then
		x = leaf(1)
	else
		x = recurse(depth - 1)
	end
	return x
end
return function()
	local x = recurse(100)
	return x
end
--- s02_methods
local Base = {}
Base.__index = Base
function Base.new()
	return setmetatable({seed = 2}, Base)
end
function Base:method(x)
	local y = self:inner(x + self.seed)
	return y
end
function Base:inner(x)
	local y = leaf(x)
	return y
end
local Derived = setmetatable({}, Base)
Derived.__index = Derived
function Derived:method(x)
	local y = Base.method(self, x)
	return y + 1
end
return function()
	local x = setmetatable(Base.new(), Derived):method(1)
	return x
end
--- s03_closures
local function make(k)
	local inner = function(x)
		local y = leaf(x + k)
		return y
	end
	return function(x) local y = inner(x); return y end
end
return function()
	local outer = make(3)
	local x = outer(1)
	return x
end
--- s04_sort
local function compare(a, b)
	leaf(4)
	return a < b
end
return function()
	local t = {2, 1}
	table.sort(t, compare) -- native
	return t
end
--- s05_substitute
return function()
	local text = string.gsub("bab", "a", function(x) -- native
		leaf(5)
		return x
	end)
	return text
end
--- s06_index
local t = setmetatable({}, {__index = function(_, key)
	local x = leaf(key)
	return x
end})
return function()
	local x = t[6] -- native in Lua
	return x
end
--- s07_add
local meta = {}
meta.__add = function(a, b)
	local x = leaf(7)
	return x
end
local object = setmetatable({}, meta)
return function()
	local x = object + 1 -- native in Lua
	return x
end
--- s08_less_in_sort
local meta = {}
meta.__lt = function(a, b)
	leaf(8)
	return a.n < b.n
end
local function object(n)
	return setmetatable({n = n}, meta)
end
return function()
	local t = {object(2), object(1)}
	table.sort(t) -- native
	return t
end
--- s09_call
local object = setmetatable({}, {__call = function(self, x)
	local y = leaf(x)
	return y
end})
return function()
	local x = object(9)
	return x
end
--- s10_concat
local object = setmetatable({}, {__concat = function(a, b)
	leaf(10)
	return "x"
end})
return function()
	local x = "a" .. object -- native in Lua
	return x
end
--- s11_newindex
local object = setmetatable({}, {__newindex = function(t, key, value)
	leaf(11)
end})
return function()
	object.x = 11 -- native in Lua
end
--- s12_equal
local meta = {}
meta.__eq = function(a, b)
	leaf(12)
	return true
end
local a, b = setmetatable({}, meta), setmetatable({}, meta)
return function()
	local x = a == b -- native in Lua
	return x
end
--- s13_pcall
local function inner()
	local x = leaf(13)
	return x
end
return function()
	local _, x = pcall(inner) -- native in Lua
	return x
end
--- s14_handler
local function handler(e)
	local x = leaf(14)
	return x
end
local function fails()
	error("s14") -- native
end
return function()
	local _, x = xpcall(fails, handler) -- native in Lua
	return x
end
--- s15_after_error
local function fails(depth)
	if depth > 0 then
		fails(depth - 1)
	end
	error({})
end
return function()
	for _ = 1, 3 do
		pcall(fails, 10)
	end
	local x = leaf(15)
	return x
end
--- s16_coroutine
local function body(x)
	local y = leaf(x)
	return y
end
return function()
	local co = create(body)
	local _, x = resume(co, 16)
	return x
end
--- s17_nested_coroutines
local function nest(depth)
	local x
	if depth == 0 then
		x = leaf(17)
	else
		local co = create(nest)
		resume(co, depth - 1)
	end
	return x
end
return function()
	local x = nest(5)
	return x
end
--- s18_resumed
local function yields()
	coroutine.yield()
	local x = leaf(18)
	return x
end
local function body()
	local x = yields()
	return x
end
return function()
	local co = create(body)
	resume(co)
	local _, x = resume(co)
	return x
end
--- s19_resumed_in_pcall
-- since 5.2
local function yields()
	coroutine.yield()
	local x = leaf(19)
	return x
end
local function body()
	local x = pcall(yields)
	return x
end
return function()
	local co = create(body)
	resume(co)
	local _, x = resume(co)
	return x
end
--- s20_generator
local function iterator(state, i)
	leaf(i)
	return i < 1 and i + 1 or nil
end
return function()
	for i in iterator, nil, 0 do -- native in Lua
		i = i
	end
end
--- s21_varargs
local function varargs(...)
	local a, b = ...
	local x = leaf(select("#", ...))
	return x, a, b
end
return function()
	local x = varargs(1, 2, 3, 4, 5, 6, 7)
	return x
end
--- s22_tail_calls
local function last(x)
	local y = leaf(x)
	return y
end
local function middle(x, ...)
	return last(x)
end
return function()
	local x = middle(22, 1, 2, 3)
	return x
end
--- s23_text
local text = load_text("local s23 = ...\nlocal function f(x)\n\tlocal y = leaf(x)\n\treturn y\nend\nlocal y = f(s23)\nreturn y\n")
return function()
	local x = text(23)
	return x
end
--- s24_named_text
local text = load_text("local x = leaf(24) return x", "=s24 text")
return function()
	local x = text()
	return x
end
--- s25_module
return function()
	package.loaded.s25_module = nil
	package.preload.s25_module = load_file("s25_required.lua", "local x = leaf(25)\nreturn x")
	local x = require("s25_module") -- native
	return x
end
--- s26_file
return function()
	local x = dofile(folder .. "/s26_done.lua") -- native
	return x
end
--- s27_nested
local function nested(depth)
	local t = {2, 1}
	table.sort(t, function(a, b) -- native
		if depth == 0 then
			leaf(27)
		else
			nested(depth - 1)
		end
		return a < b
	end)
end
return function()
	nested(8)
end
--- s28_coroutine_in_sort_in_coroutine
local function body()
	local t = {2, 1}
	table.sort(t, function(a, b) -- native
		local co = create(function()
			leaf(28)
		end)
		resume(co)
		return a < b
	end)
end
return function()
	local co = create(body)
	resume(co)
end
--- s29_far_apart
local function far(x)
	local y = 1
%LINES%
	y = y + leaf(29)
%LINES%
	return y + x
end
return function()
	local x = far(1)
	return x
end
--- s30_many_instructions
local function many(x)
	local t = {}
%STATEMENTS%
	local y = leaf(30)
%STATEMENTS%
	return x + y
end
return function()
	local x = many(1)
	return x
end
--- s31_hook
local function hook()
	debug.sethook()
	leaf(31)
end
return function()
	local x = 1
	debug.sethook(hook, "", 20)
	while debug.gethook() do x = x + 1 end -- native
	return x
end
--- s32_tostring
local object = setmetatable({}, {__tostring = function()
	leaf(32)
	return "x"
end})
return function()
	local x = tostring(object) -- native in Lua
	return x
end
--- s33_reader
local function reader()
	if state33 then
		return nil
	end
	state33 = true
	leaf(33)
	return "return 1"
end
return function()
	state33 = false
	local f = load(reader, "=s33") -- native
	return f
end
--- s34_collected
-- since 5.2
return function()
	setmetatable({}, {__gc = function()
		for _ = 1, observed and 1 or 6 do leaf(34) end
	end})
	collectgarbage() -- native
end
--- s35_closed
-- since 5.4
return load_file("s35_closes.lua", "return function()\n\tdo\n\t\tlocal x <close> = setmetatable({}, {__close = function()\n" ..
	"\t\t\tleaf(35)\n\t\tend}) -- native\n\tend -- native\nend")()
--- s36_library
return function()
	if observed then observe() return end
	for _ = 1, 60 do string.rep("abcdefghij", 5000):find("zz", 1, true) end
end
--- s37_return_closures
local function f(x) return function() local y = leaf(x) return y end end
local function g(x) return f(x) end
return function()
	local x = 0
	for _ = 1, 3 do x = x + g(37)() end
	return x
end
--- s38_index_of_index
local inner = setmetatable({}, {__index = function(t, k)
	local x = leaf(k)
	return x
end})
local outer = setmetatable({}, {__index = function(t, k)
	local x = inner[k] -- native in Lua
	return x
end})
return function()
	local x = outer[38] -- native in Lua
	return x
end
--- s39_calls
local function a(x) return x + 1 end
local function b(x) local y = a(x) return y + a(y) end
local function calls()
	if observed then observe() return end
	for i = 1, 50000 do local y = b(i) end
end
return function()
	calls()
end
--- s40_resumed_often
local function body()
	while true do
		coroutine.yield()
		leaf(40)
	end
end
local co
return function()
	co = co or create(body)
	if not started40 then
		started40 = true
		resume(co)
	end
	resume(co)
end
--- s41_short_metamethods
local meta = {}
meta.__add = function(a, b) return a end
local object = setmetatable({}, meta)
return function()
	if observed then observe() return end
	for i = 1, 50000 do local y = object + i end -- native in Lua
end
--- s42_short_comparisons
local t = {}
for i = 1, 1000 do t[i] = i * 7919 % 1009 end
local function less(a, b) return a < b end
return function()
	if observed then observe() return end
	for i = 1, 30 do local u = {} for i = 1, 1000 do u[i] = t[i] end table.sort(u, less) end -- native
end
--- s43_short_metamethods_resumed
local meta = {}
meta.__index = function(t, key) return key end
local object = setmetatable({}, meta)
local function body()
	coroutine.yield()
	if observed then observe() return end
	for i = 1, 50000 do local y = object[i] end -- native in Lua
end
return function()
	local co = create(body)
	resume(co)
	resume(co)
end
]==]


local ROUNDS = 80000
local version = tonumber(_VERSION:match("%d+%.%d+"))
local path, pid = arg[1], tonumber(arg[2])
local parents = {} -- coroutine → the functions that have resumed it
local sources = {} -- file → its lines
local runs, names = {}, {}
local leaf_begin, leaf_end

folder = path:match("^(.*)/")
load_text = loadstring or load
create = coroutine.create

local function line_here()
	return debug.getinfo(2, "l").currentline
end

local function me()
	local thread, is_main = coroutine.running()
	return not is_main and thread or false
end

leaf_begin = line_here() + 1
function leaf(x)
	if observed then
		observe()
		return 1
	end
	for i = 1, ROUNDS do
		x = (x * 31 + i) % 1000003
		if x == 7 then
			x = x + 1
		end
	end
	return x
end
leaf_end = line_here() - 1

-- What is shown of a function: name, file, first line.
local function shown(info)
	local file = info.source:match("^[@=](.*)") or info.short_src
	if info.what == "main" then
		return "main chunk", file, 0
	end
	return ("function <%s:%d>"):format(file, info.linedefined), file, info.linedefined
end

-- Of the functions on `level` of this coroutine and further out, and of those that have resumed it, innermost first.
local function frames_from(level)
	local frames, thread = {}, me()
	while true do
		local info = debug.getinfo(level, "Sl")
		if not info then
			break
		end
		if info.what ~= "C" and info.what ~= "tail" then
			local name, file, first = shown(info)
			frames[#frames + 1] = {name = name, file = file, first = first, line = info.currentline}
		end
		level = level + 1
	end
	for _, frame in ipairs(thread and parents[thread] or {}) do
		frames[#frames + 1] = frame
	end
	return frames
end

-- What has called this function is the situation's innermost function.
function observe()
	local frames = frames_from(3)
	observed = frames
end

function resume(co, ...)
	if observed then
		parents[co] = frames_from(2)
		parents[co][1].line = line_here() + 2
	end
	local good, x = coroutine.resume(co, ...)
	return good, x
end

local function lines_of(text)
	local lines = {}
	for line in (text .. "\n"):gmatch("([^\n]*)\n") do
		lines[#lines + 1] = line
	end
	return lines
end

-- A function of a file, which need not be there.
function load_file(name, text)
	local file = folder .. "/" .. name
	sources[file] = lines_of(text)
	return assert(load_text(text, "@" .. file))
end

local function read_situations()
	local name, lines = nil, {}
	local function add()
		local text = table.concat(lines, "\n")
		local since = text:match("%-%- since (%S+)")
		if since and version < tonumber(since) then
			return
		end
		text = text:gsub("%%LINES%%", ("\n"):rep(200)):gsub("%%STATEMENTS%%", ("t[1] = x t[2] = t\n"):rep(300))
		names[#names + 1] = name
		runs[name] = load_file(name .. ".lua", text)()
	end
	for _, line in ipairs(lines_of(SITUATIONS)) do
		local begins = line:match("^%-%-%- (%S+)")
		if begins then
			if name then add() end
			name, lines = begins, {}
		else
			lines[#lines + 1] = line
		end
	end
	add()
end

-- --- the truth

local function json(x)
	if type(x) == "string" then
		return '"' .. x:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
	elseif type(x) ~= "table" then
		return tostring(x)
	end
	local parts = {}
	if #x > 0 or next(x) == nil and x ~= sources then
		for i, v in ipairs(x) do parts[i] = json(v) end
		return "[" .. table.concat(parts, ",") .. "]"
	end
	for k, v in pairs(x) do parts[#parts + 1] = json(k) .. ":" .. json(v) end
	return "{" .. table.concat(parts, ",") .. "}"
end

local function is_native(line)
	return line:find("-- native", 1, true) and not (jit and line:find("-- native in Lua", 1, true))
end

local function chain(frames)
	local steps = {}
	for i = #frames, 1, -1 do
		local f, caller = frames[i], steps[#steps]
		local line = caller and sources[caller.file] and sources[caller.file][caller.lines[1]] or ""
		local step = {name = f.name, file = f.file, first = f.first, lines = {f.line}, leaf = i == 1, prepared = true, between = ""}
		if is_native(line) or (not jit and caller and caller.is_resume) then
			step.between = "."
		end
		step.direct = step.between == ""
		step.is_resume = f.first == resume_line and f.file == arg[0]
		if f.first == leaf_begin and f.file == arg[0] then
			step.lines = {}
			for line = leaf_begin, leaf_end do step.lines[#step.lines + 1] = line end
			if jit and jit.status() then step.lines[#step.lines + 1] = 0 end -- compiled, it has none
		end
		steps[#steps + 1] = step
	end
	return steps
end

-- All functions, by the lines on which they begin.
local function own_functions(situations)
	local own = {}
	for file, lines in pairs(sources) do
		for i, line in ipairs(lines) do
			if line:find("function", 1, true) then
				own[#own + 1] = {file, ("function <%s:%d>"):format(file, i), i, 100000}
			end
		end
		own[#own + 1] = {file, "main chunk", 0, 100000}
	end
	for _, s in pairs(situations) do
		for _, step in ipairs(s.chain) do own[#own + 1] = {step.file, step.name, step.first, 100000} end
		own[#own + 1] = {s.chain[#s.chain - 1].file, "main chunk", 0, 100000} -- which has made the function
	end
	return own
end

local function copy_of(steps)
	local copy = {}
	for i, s in ipairs(steps) do
		copy[i] = {}
		for k, v in pairs(s) do copy[i][k] = v end
	end
	copy[#copy].leaf = false
	return copy
end

-- Functions that run too shortly to be observed: a situation → what its innermost function calls, and so on, each at one line.
local SHORT = {
	s39_calls = {{first = 2, between = ""}, {first = 1, between = ""}},
	s41_short_metamethods = {{first = 2, between = jit and "" or "."}},
	s42_short_comparisons = {{first = 3, between = "."}},
	s43_short_metamethods_resumed = {{first = 2, between = jit and "" or "."}},
}

local function add_short(situations, name, chain)
	local last = chain[#chain]
	local line = last.lines[1] + 1 -- they are called behind where it was observed
	last.lines = {line - 1, line} -- the innermost function may have the line of an earlier instruction
	for i, short in ipairs(SHORT[name] or {}) do
		chain = copy_of(chain)
		if i == 1 then
			chain[#chain].lines = {line}
		end
		chain[#chain + 1] = {name = ("function <%s:%d>"):format(last.file, short.first), file = last.file, first = short.first,
			lines = {short.first}, leaf = true, prepared = true, between = short.between, direct = short.between == ""}
		-- compiled, they are a part of their caller
		situations[name .. "_" .. i] = {chain = chain, thread = false, rare = (jit and jit.status()) or false}
	end
end

local function write_file(to, text)
	local out = assert(io.open(to .. ".part", "w"))
	out:write(text)
	out:close()
	assert(os.rename(to .. ".part", to))
end

local function run(name)
	local x = runs[name]()
	return x
end

local function observe_all()
	local situations = {}
	for _, name in ipairs(names) do
		observed = {}
		run(name)
		table.remove(observed, #observed - 1) -- this function
		local steps = chain(observed)
		situations[name] = {chain = steps, thread = false, rare = (name == "s36_library" and jit and jit.status()) or false}
		if name == "s36_library" or SHORT[name] then
			add_short(situations, name, steps)
		end
	end
	observed = nil
	return situations
end

resume_line = debug.getinfo(resume, "S").linedefined
write_file(folder .. "/s26_done.lua", "local x = leaf(26)\nreturn x\n")
sources[folder .. "/s26_done.lua"] = lines_of("local x = leaf(26)")
read_situations()
sources[arg[0]] = lines_of(assert(io.open(arg[0])):read("*a"))
local situations = observe_all()
local truth = {pid = pid, language = "lua", loop = "luaV_execute", idle_loops = true, situations = situations, own = own_functions(situations)}
for _, s in pairs(truth.situations) do -- they are run from another line than they were observed from
	s.chain[1].lines = {line_here() + 9}
end
truth = json(truth):gsub('}$', ',"library":{}}')
io.open(path .. ".children", "w"):close()
write_file(path, truth)
truth, situations, sources = nil, nil, {}
while true do
	for i = 1, #names do
		local name = names[i]
		run(name)
	end
end
