//go:build amd64

// The C side: what a C programmer would write for each kernel, with the vectors
// that the Go side uses.
#include "ref.h"
#include <immintrin.h>

void *ref_chase(void *p, long n)
{
	for (; n >= 32; n -= 32) {
#define ONE p = *(void *volatile *)p;
#define FOUR ONE ONE ONE ONE
		FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR
	}
	return p;
}

static long sink;

#pragma GCC push_options
#pragma GCC target("sse2")
#define NAME(f) f##128
#define V __m128i
#define W 16
#define ZERO _mm_setzero_si128()
#define L(p) _mm_load_si128((const void *)(p))
#define S(p, v) _mm_store_si128((void *)(p), v)
#define N(p, v) _mm_stream_si128((void *)(p), v)
#define O _mm_or_si128
#define X _mm_xor_si128
#define NTTRIAD(w, a, b) _mm_stream_pd(w, _mm_add_pd(_mm_mul_pd(_mm_load_pd(b), _mm_set1_pd(3)), _mm_load_pd(a)))
#include "kernels.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NAME(f) f##256
#define V __m256i
#define W 32
#define ZERO _mm256_setzero_si256()
#define L(p) _mm256_load_si256((const void *)(p))
#define S(p, v) _mm256_store_si256((void *)(p), v)
#define N(p, v) _mm256_stream_si256((void *)(p), v)
#define O _mm256_or_si256
#define X _mm256_xor_si256
#define NTTRIAD(w, a, b) _mm256_stream_pd(w, _mm256_fmadd_pd(_mm256_load_pd(b), _mm256_set1_pd(3), _mm256_load_pd(a)))
#include "kernels.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,fma")
#define NAME(f) f##512
#define V __m512i
#define W 64
#define ZERO _mm512_setzero_si512()
#define L(p) _mm512_load_si512((const void *)(p))
#define S(p, v) _mm512_store_si512((void *)(p), v)
#define N(p, v) _mm512_stream_si512((void *)(p), v)
#define O _mm512_or_si512
#define X _mm512_xor_si512
#define NTTRIAD(w, a, b) _mm512_stream_pd(w, _mm512_fmadd_pd(_mm512_load_pd(b), _mm512_set1_pd(3), _mm512_load_pd(a)))
#include "kernels.h"
#pragma GCC pop_options

void ref_steps(int width, int kind, char *buf, size_t part, long from, long to)
{
	switch (width) {
	case 128: steps128(kind, buf, part, from, to); break;
	case 256: steps256(kind, buf, part, from, to); break;
	case 512: steps512(kind, buf, part, from, to); break;
	}
}
