# SPDX-License-Identifier: Apache-2.0
# A service with Sinatra: routes, templates, sorting by blocks, regular expressions, JSON.
require "sinatra/base"
require "json"
require "digest"

class Row
  attr_reader :title, :text, :rank

  def initialize(i)
    @title, @text, @rank = "post #{i}", "some text & more of it " * (4 + i % 5), Digest::MD5.hexdigest(i.to_s)
  end

  def <=>(other)
    rank <=> other.rank
  end

  def words
    text.gsub(/\b(\w)(\w*)\b/) { $1.upcase + $2 }
  end

  def to_h
    { title: title, text: words, rank: rank }
  end
end

class Service < Sinatra::Base
  set :environment, :production
  set :logging, false

  helpers do
    def escape(text)
      Rack::Utils.escape_html(text)
    end
  end

  template :page do
    "<% @rows.each do |row| %><h2><%= escape(row['title']) %></h2><p><%= escape(row['text']) %></p><% end %>"
  end

  get "/:n" do |n|
    rows = (0...n.to_i).map { |i| Row.new(i) }.sort
    @rows = JSON.parse(JSON.generate(rows.map(&:to_h)))
    erb :page
  end
end
