//go:build amd64

// The C side: what a C programmer would write for each kernel.
#pragma GCC target("avx2,fma")
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

static void rd(const char *p, size_t n)
{
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	for (const char *e = p + n; p < e; p += 256) {
		a = _mm256_or_si256(a, _mm256_or_si256(_mm256_load_si256((const void *)p), _mm256_load_si256((const void *)(p + 32))));
		b = _mm256_or_si256(b, _mm256_or_si256(_mm256_load_si256((const void *)(p + 64)), _mm256_load_si256((const void *)(p + 96))));
		c = _mm256_or_si256(c, _mm256_or_si256(_mm256_load_si256((const void *)(p + 128)), _mm256_load_si256((const void *)(p + 160))));
		d = _mm256_or_si256(d, _mm256_or_si256(_mm256_load_si256((const void *)(p + 192)), _mm256_load_si256((const void *)(p + 224))));
	}
	a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
	if (_mm256_extract_epi64(a, 0) == 0x5bd1e995)
		sink++;
}

static void st(char *p, size_t n)
{
	__m256i z = _mm256_setzero_si256();
	for (char *e = p + n; p < e; p += 128) {
		_mm256_store_si256((void *)p, z);
		_mm256_store_si256((void *)(p + 32), z);
		_mm256_store_si256((void *)(p + 64), z);
		_mm256_store_si256((void *)(p + 96), z);
	}
}

static void nt(char *p, size_t n)
{
	__m256i z = _mm256_setzero_si256();
	for (char *e = p + n; p < e; p += 128) {
		_mm256_stream_si256((void *)p, z);
		_mm256_stream_si256((void *)(p + 32), z);
		_mm256_stream_si256((void *)(p + 64), z);
		_mm256_stream_si256((void *)(p + 96), z);
	}
	_mm_sfence();
}

static void mix(char **s, int reads, size_t n)
{
	for (size_t i = 0; i < n; i += 32) {
		__m256i v = _mm256_load_si256((const void *)(s[0] + i));
		for (int k = 1; k < reads; k++)
			v = _mm256_xor_si256(v, _mm256_load_si256((const void *)(s[k] + i)));
		_mm256_store_si256((void *)(s[reads] + i), v);
	}
}

static void triad(double *restrict w, const double *restrict a, const double *restrict b, size_t n)
{
	for (size_t i = 0; i < n / 8; i++)
		w[i] = a[i] + 3.0 * b[i];
}

static void nttriad(double *w, const double *a, const double *b, size_t n)
{
	__m256d three = _mm256_set1_pd(3);
	for (size_t i = 0; i < n / 8; i += 4)
		_mm256_stream_pd(w + i, _mm256_fmadd_pd(_mm256_load_pd(b + i), three, _mm256_load_pd(a + i)));
	_mm_sfence();
}

void ref_steps(int kind, char *buf, size_t part, long from, long to)
{
	const size_t step = 64 << 10;
	for (long i = from; i < to; i++) {
		char *s[4] = {buf + i * step, buf + part + i * step, buf + 2 * part + i * step, buf + 3 * part + i * step};
		switch (kind) {
		case REF_R: rd(s[0], step); break;
		case REF_W: st(s[0], step); break;
		case REF_NT: nt(s[0], step); break;
		case REF_1: mix(s, 1, step); break;
		case REF_2: mix(s, 2, step); break;
		case REF_3: mix(s, 3, step); break;
		case REF_TRIAD: triad((double *)s[2], (double *)s[0], (double *)s[1], step); break;
		case REF_NTTRIAD: nttriad((double *)s[2], (double *)s[0], (double *)s[1], step); break;
		}
	}
}
