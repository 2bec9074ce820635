# SPDX-License-Identifier: Apache-2.0
#
# A Ruby program whose methods live a tenth of a millisecond. It runs on Ruby 2.7 to 3.4.
#
#	ruby churn.rb TRUTH KIND
#
# Turn N evaluates a text of its own, runs it, and drops it, so that later turns' code and strings take the memory of this one's once the
# collector has freed it. By KIND:
#
#	method     a class's methods f_N, which calls g_N, are defined and removed, in the file "<churn N>" at line N%1000+1
#	class      class K_N, which is made anew each time, has them, always at the same line of the same file
#	long       the same, and the names of class and methods are longer than a string's own memory
#	lambda     two lambdas in the file "<churn N>", always at the same line: what tells them apart is the file
#
# TRUTH gets a record for each turn: when its methods began and ended to run (ns since 1970), and N: three 64-bit numbers.
STEP = 100_000 # ns
FIRST = 100_000_000
LONG = "_of_a_name_that_is_long"

def now
  Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
end

class Churned
end

def lambdas(n)
  eval("g = lambda { |e| now < e while now < e }; lambda { |e| g.(e) }", TOPLEVEL_BINDING.dup, "<churn #{n}>", 1)
end

# The methods of turn n, in a class that is named so; then what `use` is given runs them.
def methods_of(into, n, more, file, line)
  into.class_eval("def f_#{n}#{more}(e) g_#{n}#{more}(e) end; def g_#{n}#{more}(e) nil while now < e end", file, line)
end

def run_methods(n, end_at)
  methods_of(Churned, n, "", "<churn #{n}>", n % 1000 + 1)
  object = Churned.new # the collector may run now
  begun = now
  object.send("f_#{n}", [end_at, begun + 20_000].max)
  after = now
  Churned.send(:remove_method, "f_#{n}", "g_#{n}")
  [begun, after]
end

def run_class(n, more, end_at)
  name = "K_#{n}#{more}"
  made = Object.const_set(name, Class.new)
  methods_of(made, n, more, "<churn>", 1)
  object = made.new
  begun = now
  object.send("f_#{n}#{more}", [end_at, begun + 20_000].max)
  after = now
  Object.send(:remove_const, name)
  [begun, after]
end

def run_lambda(n, end_at)
  made = lambdas(n)
  begun = now
  made.call([end_at, begun + 20_000].max)
  [begun, now]
end

def turn(kind, n, end_at)
  times = case kind
          when "method" then run_methods(n, end_at)
          when "class" then run_class(n, "", end_at)
          when "long" then run_class(n, LONG, end_at)
          when "lambda" then run_lambda(n, end_at)
          end
  [*times, n].pack("Q<3")
end

kind = ARGV.fetch(1)
File.open(ARGV.fetch(0), "wb") do |out|
  out.sync = true
  $stdout.puts(Process.pid)
  $stdout.flush
  n = FIRST
  end_at = now
  loop do
    records = "".b
    1000.times do
      n += 1
      end_at = [end_at + STEP, now - 1_000_000_000].max
      records << turn(kind, n, end_at)
    end
    out.write(records)
  end
end
