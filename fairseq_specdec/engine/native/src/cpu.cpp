// Which variants of the engine this processor and its operating system can run.
//
// Compiled for the architecture's baseline and loaded before any variant, so that no instruction is
// tried that is not there. __builtin_cpu_supports asks CPUID and, for the wide registers, XGETBV:
// whether the system saves them.
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
// Not every compiler's builtin knows it; its registers are those of AVX.
static bool has_avx_vnni() {
  unsigned most = 0, a = 0, b, c, d;
  if (!__get_cpuid_count(7, 0, &most, &b, &c, &d) || most < 1) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

extern "C" __attribute__((visibility("default"))) unsigned specdec_variants() {
  unsigned variants = 0;  // bit by bit, in the order of library.py's VARIANTS
#if defined(__x86_64__)
  __builtin_cpu_init();
  // three that not every compiler's builtin knows
  unsigned a, b, basic = 0, extended = 0, d;
  const bool known =
      __get_cpuid(1, &a, &b, &basic, &d) && __get_cpuid(0x80000001, &a, &b, &extended, &d);
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
  const bool v3 = HAS("avx") && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") &&
                  HAS("popcnt") && HAS("sse4.2") && known && (basic & bit_MOVBE) &&
                  (basic & bit_F16C) && (extended & bit_LZCNT);
  const bool v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") &&
                  HAS("avx512vl");
  variants |= v3 ? 1 : 0;
  variants |= v3 && has_avx_vnni() ? 2 : 0;
  variants |= v4 ? 4 : 0;
  variants |= v4 && HAS("avx512vnni") && HAS("avx512bf16") ? 8 : 0;
#elif defined(__aarch64__)
  variants |= 16;  // every AArch64 processor has NEON
#if defined(__linux__)
  variants |= getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? 32 : 0;
#endif
#endif
  return variants;
}
