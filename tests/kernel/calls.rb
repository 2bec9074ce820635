# SPDX-License-Identifier: Apache-2.0
# What calls.py is, in Ruby. usage: calls.rb READY SECONDS

def burn
  x = 0 # burn
  i = 0 # burn
  while i < 1_000_000 # burn
    x = (x * 31 + i) % 1_000_003 # burn
    i += 1 # burn
  end
  x # burn
end

def ordered
  [2, 1].sort { |a, b| burn; a <=> b }
end

class Kept
  def method_missing(_name, *_)
    ordered
  end

  def last
    unknown
  end
end

def main
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV[1].to_f
  File.write(ARGV[0], "ready")
  loop do
    [Kept.new].each { |k| k.last }
    break if Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish
  end
end

main
