# SPDX-License-Identifier: Apache-2.0
"""Haskell (GHC): its code keeps its own stack in the heap, between C functions that call it and C functions that it calls."""
from .work import START, Program

MAIN = """{-# LANGUAGE ForeignFunctionInterface #-}
module Main where
import Data.Bits (xor, shiftR)
import Data.IORef

foreign import ccall unsafe "c_work" cWork :: Int -> IO Int
foreign import ccall safe "c_outer" cOuter :: Int -> IO Int
foreign export ccall "hs_inner" hsInner :: Int -> IO Int

-- Allocates, so that the garbage collector runs, and is not tail-recursive, so that the Haskell stack grows.
deep :: Int -> Integer
deep 0 = 1
deep n = let r = deep (n - 1) in r + fromIntegral (n `xor` (fromIntegral r `shiftR` 3))
{-# NOINLINE deep #-}

hsInner :: Int -> IO Int
hsInner x = do
  r <- newIORef (deep (x `mod` 97 + 300))
  v <- readIORef r
  y <- cWork (fromIntegral (v `mod` 1000))
  return $! y + fromIntegral (v `mod` 7)

loop :: Int -> IO ()
loop x = do
  a <- hsInner x
  b <- cOuter a
  loop $! (a + b) `mod` 1000003

main :: IO ()
main = loop 1
"""
C = """
long hs_inner(long x);
__attribute__((noinline)) long c_work(long x)
{
	for (int i = 0; i < %d; i++)
		__asm__ volatile("imul %%1, %%0" : "+r"(x) : "r"(x | 1));
	return x & 0xffff;
}
__attribute__((noinline)) long c_outer(long x)
{
	volatile long room[%d];
	room[x & 1] = hs_inner(x);
	room[0] = c_work(room[x & 1]);
	return room[0];
}
"""
RTS = "(?:(?!c_|Main_)[A-Za-z_][^;<]*;){1,6}"  # functions of the runtime system
# and those in which a sample ends, also in the handler of the timer's signal
INNER = r"(?:;(?!c_|hs_|Main_)[A-Za-z_][^;<]*|;<(?!flow)[^;>]+>)*"
HASKELL = "(?:[A-Za-z0-9_]+|<flow>)"  # the functions that are not exported have no symbol



def haskell(work, *flags):
    work.need("ghc")
    source, c = work.write("Main.hs", MAIN), work.write("part.c", C % (work.rng.randrange(2000, 6000), work.rng.randrange(2, 60)))
    work.run(["ghc", "-O1", "-fforce-recomp", *flags, "-outputdir", work.path("objects"), "-stubdir", work.path("stubs"),
              "-o", work.path("flow"), source, c])
    root = START + ";hs_main;" + RTS
    leaf = f"(?:;c_work)?{INNER}"
    expect = [root + HASKELL + leaf, root + HASKELL + ";c_outer" + leaf,
              root + HASKELL + ";c_outer;hs_inner(?:;" + RTS + HASKELL + leaf + "|" + INNER + ")"]
    # not of interest: the garbage collector, the scheduler, what a thread of the runtime system does
    return Program([work.path("flow")], expect, {"c_work", "c_outer"}, [work.path("flow")], names=False,
                   phase=r"(?:^|;)(?:c_work|c_outer|[^;]*_(?:info|fast|slow)|stg_[^;]*|<flow>)(?:;|$)")


# -g: GHC's own call-frame information describes the Haskell stack
CASES = {"haskell": lambda w: haskell(w), "haskell -O0": lambda w: haskell(w, "-O0"), "haskell -g": lambda w: haskell(w, "-g")}
QUICK = ("haskell",)
