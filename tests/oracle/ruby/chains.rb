# SPDX-License-Identifier: Apache-2.0
#
# Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost method. Writes what
# a profiler must see of each (the truth, in the form that ../python/chains.py has) before it begins.
#
#	ruby chains.rb TRUTH
#
# A situation is run once while its innermost method looks at caller_locations: that is its chain. A trace point says which of its
# frames are functions of native code, and of which class. Methods s12_… and classes S12… belong to situation 12.
require "rbconfig"

ROUNDS = RUBY_DESCRIPTION.include?("JIT") ? 1_000_000 : 250_000
LARGE = ("0123456789abcdef" * 60_000).freeze
HUGE = (LARGE * 10).freeze
NUMBERS = (1..200_000).to_a.freeze
TRUTH = ARGV.fetch(0)
RUBY = RUBY_VERSION.split(".").first(2).join.to_i # 31
$observed = nil # an array while a situation is observed
$own_sources = {} # path → source of code that is evaluated

def leaf(n)
  return observe(n) if $observed
  i = 0
  while i < ROUNDS
    n = (n + i) & 1_048_575 # without functions of native code, also with YJIT
    i += 1
  end
  n
end

def s01_recursion(depth)
  depth.zero? ? leaf(1) : s01_recursion(depth - 1)
end

class S02Base
  def s02_method(x)
    s02_inner(x + 2)
  end

  def self.s02_fixed(x)
    leaf(x)
  end

  private

  def s02_inner(x)
    self.class.s02_fixed(x)
  end
end

class S02Derived < S02Base
  def s02_method(x)
    super(x) + 1
  end
end

def s02_methods
  S02Derived.new.s02_method(1)
end

def s03_closures
  k = 3
  inner = lambda { |x| leaf(x + k) }
  outer = proc { |x| inner.call(x) }
  outer.(1)
end

def s04_map
  [1].map { |x| leaf(x) }
end

def s05_sort_by
  [1].each_slice(1).sort_by { |x| leaf(x[0]) }
end

def s06_inject
  [1, 2].inject { |a, x| leaf(a + x) }
end

class S07Item
  include Comparable

  def <=>(other)
    leaf(1) * 0
  end
end

def s07_compare
  [S07Item.new, S07Item.new].max
end

def s08_comparable
  S07Item.new < S07Item.new
end

class S09List
  include Enumerable

  def each
    yield 1
  end
end

def s09_each
  S09List.new.each_with_index { |x, _i| leaf(x) }
end

class S10Defined
  define_method(:s10_defined) { |x| leaf(x) }
  define_method(:s10_outer) { |x| s10_defined(x) }
end

def s10_define_method
  S10Defined.new.s10_outer(1)
end

class S11Missing
  def method_missing(name, *arguments)
    name == :s11_any ? leaf(arguments[0]) : super
  end

  def respond_to_missing?(*)
    true
  end
end

def s11_method_missing
  S11Missing.new.s11_any(11)
end

module S12Functions
  def self.s12_function(x)
    leaf(x)
  end
end

class S12Single
  class << self
    def s12_single(x)
      S12Functions.s12_function(x)
    end
  end
end

def s12_send
  S12Single.public_send(:s12_single, 12).then { |x| x }
end

def s13_enumerator
  e = Enumerator.new { |y| y << leaf(13) }
  e.next
end

def s14_fiber
  Fiber.new { |x| leaf(x) }.resume(14)
end

def s15_fiber_resumed
  f = Fiber.new do
    x = Fiber.yield(1)
    [x].each { |y| leaf(y) }
  end
  f.resume
  f.resume(15)
end

def s16_thread
  Thread.new { s16_in_thread($observed ? 1 : 40) }.join
end

def s16_in_thread(n)
  (1..n).each { |y| leaf(y) }
end

def s17_ensure
  raise ArgumentError, "s17"
rescue ArgumentError
  17
ensure
  leaf(17)
end

def s18_raises
  raise "s18"
end

def s18_rescue
  s18_raises
rescue RuntimeError
  leaf(18)
end

def s19_retry
  tries = 0
  begin
    tries += 1
    raise "s19" if tries < 3
    leaf(19)
  rescue RuntimeError
    retry
  end
end

def s20_catch
  catch(:s20) do
    [1].each { throw :s20, leaf(20) }
  end
end

$own_sources["/s21_evaluated"] = "\nleaf(21)"
def s21_eval
  x = 1
  eval($own_sources["/s21_evaluated"], binding, "/s21_evaluated", x)
end

def s22_instance_eval
  S02Derived.new.instance_eval { leaf(22) }
end

$own_sources["/s23_evaluated"] = "def s23_made(x)\n  leaf(x)\nend"
class S23Made
  class_eval $own_sources["/s23_evaluated"], "/s23_evaluated", 1
end

def s23_class_eval
  S23Made.new.s23_made(23)
end

def s24_class_exec
  S23Made.class_exec(24) { |x| leaf(x) }
end

S25Record = Struct.new(:a) do
  def s25_value
    leaf(a)
  end
end

def s25_struct
  S25Record.new(25).s25_value
end

module S26Refinement
  refine Integer do
    def s26_refined
      leaf(self)
    end
  end
end

using S26Refinement

def s26_refinement
  26.s26_refined
end

def s27_sum
  return leaf(27) if $observed
  HUGE.sum
end

def s28_pack
  return leaf(28) if $observed
  NUMBERS.pack("N*")
end

def s29_gsub
  "bab".gsub(/a/) { leaf(29).to_s }
end

def s30_fork
  Process.wait(fork { s30_in_child })
  $observed = File.open("#{TRUTH}.observed", "rb") { |f| Marshal.load(f) } if $observed
end

def s30_in_child
  File.open("#{TRUTH}.children", "a") { |f| f.puts(Process.pid) }
  ($observed ? 1 : 40).times { leaf(30) }
  File.open("#{TRUTH}.observed", "wb") { |f| Marshal.dump($observed, f) } if $observed
  exit!(0)
end

S31_FILE = File.join(File.dirname(TRUTH), "required_s31.rb")
$own_sources[S31_FILE] = "# situation 31\nleaf(31)\n"
def s31_load
  load S31_FILE
end

def s32_default
  Hash.new { |_h, k| leaf(k) }.values_at(32)
end

def s33_named(x)
  leaf(x)
end

def s33_method_object
  [33].map(&method(:s33_named))
end

class S34Item
  def s34_value
    leaf(34)
  end
end

def s34_symbol
  [S34Item.new].each(&:s34_value)
end

def s35_scan
  return leaf(35) if $observed
  LARGE.scan(/[a-c]+[0-9]/)
end

class S36Number
  def coerce(_other)
    [leaf(36), 1]
  end
end

def s36_coerce
  1 + S36Number.new
end

class S37Text
  def to_s
    leaf(37).to_s
  end
end

def s37_to_s
  "#{S37Text.new}"
end

def s38_loop
  loop do
    2.times { |x| leaf(x) }
    break
  end
end

def s39_nested
  [1].each { |x| [x].each { |y| [y].map { |z| leaf(z) } } }
end

module S40Prepended
  def s40_value
    super + 1
  end
end

class S40Item
  prepend S40Prepended
  def s40_value
    leaf(40)
  end
  alias_method :s40_other, :s40_value
end

def s40_prepend
  S40Item.new.s40_other
end

def s41_anonymous
  Class.new { def s41_value; leaf(41); end }.new.s41_value
end

def s42_yields
  yield 42
end

def s42_yield
  s42_yields { |x| leaf(x) }
end

def s43_unbound
  S34Item.instance_method(:s34_value).bind(S34Item.new).call
end

def s44_lazy
  (1..2).lazy.map { |x| leaf(x) }.first(2)
end

def s45_rescue_block
  [1].each do |x|
    begin
      raise "s45"
    rescue StandardError
      leaf(x)
    end
  end
end

def s46_initialize
  S46Made.new(46)
end

class S46Made
  def initialize(x)
    leaf(x)
  end
end

def s47_sort
  return leaf(47) if $observed
  NUMBERS.sort_by(&:itself)
end

def s48_last_match
  "s48" =~ /(\d+)/
  leaf($1.to_i)
end

# --- the truth

# What the innermost method sees of its chain: [native functions, outermost first; path, line, label, base label of each frame].
def observe(n)
  $trace.disable
  natives = (Thread.current[:natives] || []).map { |c, m| [native_class(c), m.to_s] }
  $observed = [natives, caller_locations(1).map { |l| [l.path, l.lineno, l.label, l.base_label] }]
  n
end

# "Array#" or "Process."
def native_class(c)
  return "#{c}#" unless c.singleton_class?
  "#{c.inspect[/\A#<Class:(.*)>\z/, 1]}."
end

def trace
  TracePoint.new(:c_call, :c_return) do |t|
    stack = (Thread.current[:natives] ||= [])
    if t.event == :c_call
      stack.push([t.defined_class, t.method_id])
    else
      stack.pop
    end
  end
end

Code = Struct.new(:path, :label, :base, :first, :last, :method)

# All code of a file: methods, blocks, classes, and what handles exceptions.
def codes_of(iseq, path, found, first)
  from, _, to, = iseq.to_a[4][:code_location]
  found << Code.new(path, iseq.label, iseq.base_label, first || iseq.first_lineno, to, iseq.to_a[9] == :method)
  found.last.last = [to, from].max
  iseq.each_child { |c| codes_of(c, path, found, nil) }
end

def all_codes
  found = []
  codes_of(RubyVM::InstructionSequence.compile_file(__FILE__), __FILE__, found, 0)
  found[0].label = "<main>"
  $own_sources.each do |path, source|
    codes_of(RubyVM::InstructionSequence.compile(source, path, path, 1), path, found, path == S31_FILE ? 0 : 1)
  end
  found
end

PREFIX = /\A(?:(?:block(?: \(\d+ levels\))?|rescue|ensure) in )*/

# Class of methods by path, name, and the line of its definition: "S02Base#".
def all_classes
  found = {}
  ObjectSpace.each_object(Module) do |m|
    next unless m.name.to_s =~ /\A(S\d\d|Object\z|Kernel\z)/ && m.name !~ /Refinement/
    [[m, "#{m.name}#"], [m.singleton_class, "#{m.name}."]].each do |c, text|
      (c.instance_methods(false) + c.private_instance_methods(false)).each do |name|
        method = c.instance_method(name)
        method = method.super_method while method && method.owner != c # another one is prepended
        next unless method && method.name == method.original_name
        path, line = method.source_location
        found[[path, method.original_name.to_s, line]] ||= text if path
      end
    end
  end
  found
end

# The code that has a frame at that place; nil: none of this program.
def code_at(path, line, label, base)
  return $codes.find { |c| c.path == path } if $own_sources.key?(path) && base !~ /\As23/
  prefix = label[PREFIX]
  fits = $codes.select do |c|
    same = c.label[PREFIX] == prefix || (RUBY >= 34 && c.label[PREFIX].gsub(/rescue in |ensure in /, "") == prefix)
    same && c.path == path && c.base == base && line.between?(c.first, c.last)
  end
  fits.reject! { |c| c.label =~ /(?:rescue|ensure) in / } if RUBY >= 34 # these are one with what they belong to
  fits.min_by { |c| c.last - c.first }
end

# Ruby's own methods that are written in Ruby, by name.
BUILTIN = [[Kernel, :loop], [Kernel, :tap], [Kernel, :then], [Integer, :times], [Array, :each], [Array, :map], [Array, :pack]].map do |c, name|
  where = c.instance_method(name).source_location
  [name.to_s, ["#{c}##{name}", where]] if where && where[0].start_with?("<internal")
end.compact.to_h

# From 3.2 on, the class of the method that the code is in is known.
def name_of(label, base, path, code)
  return label if RUBY < 32 || label =~ /[#.]/
  in_method = $codes.select { |c| c.path == path && c.method && c.base == base && code.first.between?(c.first, c.last) }
  owner = in_method.map { |c| $classes[[path, base, c.first]] }.compact.last
  owner ? label[PREFIX] + owner + base : label
end

def step(name, file, first, lines)
  {name: name, file: file, first: first, lines: lines, leaf: false, native: file.empty?, internal: file.start_with?("<internal")}
end

# A frame of the chain as a step.
def step_of(path, line, label, base, natives)
  code = code_at(path, line, label, base)
  name, where = BUILTIN[base]
  if code
    shown = $own_sources.key?(path) && base !~ /\As23/ ? label : name_of(label, base, path, code)
    shown = label.sub(/\A/, "Object#") if path == "/s21_evaluated" && RUBY >= 32 && label !~ /#/
    return step(shown, path, code.first, [line])
  end
  return native_step(name) if where
  owner, found = natives.shift
  owner, found = natives.shift until found.nil? || found == base
  raise "#{label} at #{path}:#{line} is nobody's" unless found
  step(RUBY >= 32 ? owner + found : found, "", 0, [0])
end

RUNNING = File.readlines(__FILE__).size
# A function of Ruby itself, by its full name.
def native_step(full)
  base = full[/\w+\z/]
  name, where = BUILTIN[base]
  return step(RUBY >= 32 ? full : base, "", 0, [0]) unless where
  step(RUBY >= 32 ? name : base, where[0], where[1], (where[1]..where[1] + 40).to_a)
end

LEAF_LINES = (method(:leaf).source_location[1] + 1..method(:leaf).source_location[1] + 7).to_a
INTERNAL = {"s27_sum" => "String#sum", "s28_pack" => "Array#pack", "s35_scan" => "String#scan"}
IMPLICIT = /\A(?:S07Item#)?<=>|coerce|to_s|method_missing|s10_|s34_|s33_named|s23_made/

def chain(situation, natives, frames)
  frames.reverse!
  at = frames.index { |f| f[3] == "run" } # it was observed from another place than it is going to be run from
  around = at ? [outside("<main>", 0), step(RUBY >= 32 ? "Array#each" : "each", "", 0, [0]), outside("block in <main>", RUNNING)] : []
  steps = frames.drop(at || 0).map { |f| step_of(*f, natives) }
  if INTERNAL[situation]
    steps.pop
    steps.last[:lines] = [steps.last[:lines][0] + 1]
    steps << native_step(INTERNAL[situation])
  else
    steps.last[:lines] = LEAF_LINES
  end
  steps.last[:leaf] = true
  steps.each_cons(2) do |a, b|
    b[:between] = a[:native] && !b[:native] && !a[:internal] ? "." : ""
    b[:direct] = !a[:native] && !a[:internal] && (b[:native] || (b[:name] =~ /\bs\d\d_\w+\z|\bleaf\z/ && b[:name] !~ IMPLICIT && b[:name] !~ / in /)) ? true : false
  end
  steps[0].update(between: "", direct: false)
  around.each { |s| s.update(between: "", direct: false) }
  (around + steps).each { |s| s[:prepared] = true }
end

# A frame of the code outside of methods that runs all situations.
def outside(name, first)
  step(name, __FILE__, first, [RUNNING])
end

def json(value)
  case value
  when Hash then "{#{value.map { |k, v| "#{json(k.to_s)}:#{json(v)}" }.join(',')}}"
  when Array then "[#{value.map { |v| json(v) }.join(',')}]"
  when String then value.dump
  when nil then "null"
  else value.to_s
  end
end

def run(name)
  name == "s01_recursion" ? s01_recursion(200) : send(name)
end

def observed_chain(name)
  $observed = [[], []]
  Thread.current[:natives] = []
  $trace = trace
  $trace.enable
  run(name)
  $trace.disable
  natives, frames = $observed
  $observed = nil
  chain(name, natives, frames)
end

OWN_STACK = /fiber|s13/
HELPERS = %w[s16_in_thread s18_raises s30_in_child s33_named s42_yields]
ALL = private_methods(false).map(&:to_s).grep(/\As\d\d_/).sort - HELPERS - ["s47_sort"]

# Few processes and threads are made: in its first milliseconds, each is one of which nothing is known.
RARE = {"s30_fork" => [15, 0], "s16_thread" => [15, 7]}
$round = 0
def turn?(name)
  $round += 1 if name == ALL[0]
  every, at = RARE[name]
  !every || $round % every == at
end

# In a process of its own: Ruby's fast ways for operators are slow for ever in one that has been traced.
def write_truth
  $codes = all_codes
  $classes = all_classes
  situations = ALL.map { |name| [name, {chain: observed_chain(name), thread: name =~ OWN_STACK || name == "s16_thread" ? true : false,
                                         own_stack: name =~ OWN_STACK ? true : false}] }.to_h
  own = situations.values.flat_map { |s| s[:chain] }.reject { |s| s[:native] || s[:internal] }.map do |s|
    [s[:file], s[:name], s[:first], $codes.select { |c| c.path == s[:file] && c.first == s[:first] }.map(&:last).max || RUNNING]
  end
  $codes.each { |c| own << [c.path, name_of(c.label, c.base, c.path, c), c.first, c.last] }
  library = {"" => all_natives}
  BUILTIN.each { |base, (name, (file, line))| (library[file] ||= []) << [RUBY >= 32 ? name : base, line, line + 40] }
  File.write("#{TRUTH}.part", json(pid: Process.ppid, language: "ruby", loop: "rb_vm_exec", idle_loops: true, situations: situations,
                                   own: own.uniq, library: library))
end

def all_natives
  ObjectSpace.each_object(Module).flat_map do |m|
    [[m, "#{m.name}#"], [m.singleton_class, "#{m.name}."]].flat_map do |c, text|
      (c.instance_methods(false) + c.private_instance_methods(false)).map { |n| [RUBY >= 32 ? text + n.to_s : n.to_s, 0, 0] }
    end
  end.uniq
end

File.write(S31_FILE, $own_sources[S31_FILE])
Process.wait(fork { write_truth })
exit(1) unless $?.success?
File.write("#{TRUTH}.children", "")
File.rename("#{TRUTH}.part", TRUTH)

ALL.each { |name| run(name) if turn?(name) } while true
