// The streams, once for each width of vector. V is the type, W its bytes, L its
// loads, S stores, N non-temporal stores, O or, X exclusive or.

static void NAME(rd)(const char *p, size_t n)
{
	V a = ZERO, b = a, c = a, d = a;
	for (const char *e = p + n; p < e; p += 8 * W) {
		a = O(a, O(L(p), L(p + W)));
		b = O(b, O(L(p + 2 * W), L(p + 3 * W)));
		c = O(c, O(L(p + 4 * W), L(p + 5 * W)));
		d = O(d, O(L(p + 6 * W), L(p + 7 * W)));
	}
	a = O(O(a, b), O(c, d));
	if (((union { V v; long long x[W / 8]; }){a}).x[0] == 0x5bd1e995)
		sink++;
}

static void NAME(st)(char *p, size_t n)
{
	V z = ZERO;
	for (char *e = p + n; p < e; p += 4 * W) {
		S(p, z);
		S(p + W, z);
		S(p + 2 * W, z);
		S(p + 3 * W, z);
	}
}

static void NAME(nt)(char *p, size_t n)
{
	V z = ZERO;
	for (char *e = p + n; p < e; p += 4 * W) {
		N(p, z);
		N(p + W, z);
		N(p + 2 * W, z);
		N(p + 3 * W, z);
	}
	_mm_sfence();
}

static void NAME(mix)(char **s, int reads, size_t n)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < n; i += W) {
		V v = L(s[0] + i);
		for (int k = 1; k < reads; k++)
			v = X(v, L(s[k] + i));
		S(s[reads] + i, v);
	}
}

static void NAME(triad)(double *restrict w, const double *restrict a, const double *restrict b, size_t n)
{
	w = __builtin_assume_aligned(w, 64), a = __builtin_assume_aligned(a, 64), b = __builtin_assume_aligned(b, 64);
#pragma GCC unroll 4
	for (size_t i = 0; i < n / 8; i++)
		w[i] = a[i] + 3.0 * b[i];
}

static void NAME(nttriad)(double *w, const double *a, const double *b, size_t n)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < n / 8; i += W / 8)
		NTTRIAD(w + i, a + i, b + i);
	_mm_sfence();
}

static void NAME(steps)(int kind, char *buf, size_t part, long from, long to)
{
	const size_t step = 64 << 10;
	for (long i = from; i < to; i++) {
		char *s[4] = {buf + i * step, buf + part + i * step, buf + 2 * part + i * step, buf + 3 * part + i * step};
		switch (kind) {
		case REF_R: NAME(rd)(s[0], step); break;
		case REF_W: NAME(st)(s[0], step); break;
		case REF_NT: NAME(nt)(s[0], step); break;
		case REF_1: NAME(mix)(s, 1, step); break;
		case REF_2: NAME(mix)(s, 2, step); break;
		case REF_3: NAME(mix)(s, 3, step); break;
		case REF_TRIAD: NAME(triad)((double *)s[2], (double *)s[0], (double *)s[1], step); break;
		case REF_NTTRIAD: NAME(nttriad)((double *)s[2], (double *)s[0], (double *)s[1], step); break;
		}
	}
}

#undef NAME
#undef V
#undef W
#undef ZERO
#undef L
#undef S
#undef N
#undef O
#undef X
#undef NTTRIAD
