// Prints what the probe says of the processor that runs this.
#include <cstdio>

#include "cpu.cpp"

int main() { std::printf("%u\n", specdec_variants()); }
