#include <stddef.h>
enum { REF_R, REF_W, REF_NT, REF_1, REF_2, REF_3, REF_TRIAD, REF_NTTRIAD };
void *ref_chase(void *p, long n);
void ref_steps(int width, int kind, char *buf, size_t part, long from, long to);
