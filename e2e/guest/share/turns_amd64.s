#include "textflag.h"

// func turns(code, n uintptr)
TEXT ·turns(SB), NOSPLIT, $8-16
	MOVQ code+0(FP), AX
	MOVQ n+8(FP), CX
	CALL AX
	RET
