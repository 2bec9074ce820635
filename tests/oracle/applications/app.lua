-- SPDX-License-Identifier: Apache-2.0
-- What a page of nginx with Lua does: tables, sorting by a function, patterns of Lua's and of PCRE, JSON, and a coroutine.
local cjson = require("cjson")

local function words(text)
	local n = 0
	text:gsub("%w+", function(w) n = n + #w end)
	return n
end

local function rows_of(n)
	local rows = {}
	for i = 1, n do
		rows[i] = {title = "post " .. i, text = ("some text & more of it "):rep(4 + i % 5), rank = (i * 7919) % 1009}
	end
	table.sort(rows, function(a, b) return a.rank < b.rank end)
	return rows
end

local Page = {}
Page.__index = Page

function Page.new() return setmetatable({parts = {}}, Page) end

function Page:add(text) self.parts[#self.parts + 1] = text end

function Page:row(row, sum)
	local text = ngx.re.gsub(row.text, "&", "&amp;", "jo")
	self:add("<li>" .. row.title .. " " .. sum .. " " .. text .. "</li>")
end

local page = Page.new()
local sums = coroutine.wrap(function(rows)
	for _, row in ipairs(rows) do coroutine.yield(words(row.text)) end
end)
local rows = cjson.decode(cjson.encode(rows_of(tonumber(ngx.var.args))))
for i, row in ipairs(rows) do page:row(row, i == 1 and sums(rows) or sums()) end
ngx.say(table.concat(page.parts))
