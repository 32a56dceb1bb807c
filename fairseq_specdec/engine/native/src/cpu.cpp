// Which variants of the engine this processor and its operating system can run.
//
// Compiled for the architecture's baseline and loaded before any variant, so that no instruction is
// tried that is not there. On x86-64 it asks CPUID and, for the wide registers, XGETBV: whether the
// system saves them. Not by __builtin_cpu_supports, of which each compiler knows other features, and
// which answers no to all of them in zig's.
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
namespace {

// One answer of CPUID; zeros where the processor does not know the question.
struct Answer {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

  explicit Answer(unsigned leaf, unsigned subleaf = 0) {
    if (!__get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx)) eax = ebx = ecx = edx = 0;
  }
};

template <typename... Bits>
bool has(unsigned word, Bits... bits) {
  const unsigned all = ((1u << bits) | ...);
  return (word & all) == all;
}

// The registers that the system saves. To be asked only where it has switched XGETBV on.
unsigned saved_registers() {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Bits 0 to 3 of the answer. Numbers of bits: Intel's manual, volume 2, CPUID.
unsigned x86_variants() {
  const Answer basic(1), extended(0x80000001), seventh(7), more(7, seventh.eax >= 1 ? 1 : 0);
  const unsigned saved = has(basic.ecx, 27) ? saved_registers() : 0;  // OSXSAVE
  // FMA, SSE4.2, MOVBE, POPCNT, AVX, F16C; BMI, AVX2, BMI2; LZCNT; the states of SSE and AVX
  const bool v3 = has(basic.ecx, 12, 20, 22, 23, 28, 29) && has(seventh.ebx, 3, 5, 8) &&
                  has(extended.ecx, 5) && has(saved, 1, 2);
  // AVX-512 F, DQ, CD, BW, VL; the states of its masks and registers
  const bool v4 = v3 && has(seventh.ebx, 16, 17, 28, 30, 31) && has(saved, 5, 6, 7);
  const bool vnni = has(seventh.ecx, 11);
  const bool is_more = seventh.eax >= 1;
  const bool avx_vnni = is_more && has(more.eax, 4), bf16 = is_more && has(more.eax, 5);
  return (v3 ? 1 : 0) | (v3 && avx_vnni ? 2 : 0) | (v4 ? 4 : 0) | (v4 && vnni && bf16 ? 8 : 0);
}

}  // namespace
#endif

extern "C" __attribute__((visibility("default"))) unsigned specdec_variants() {
  unsigned variants = 0;  // bit by bit, in the order of library.py's VARIANTS
#if defined(__x86_64__)
  variants |= x86_variants();
#elif defined(__aarch64__)
  variants |= 16;  // every AArch64 processor has NEON
#if defined(__linux__)
  variants |= getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? 32 : 0;
#endif
#endif
  return variants;
}
