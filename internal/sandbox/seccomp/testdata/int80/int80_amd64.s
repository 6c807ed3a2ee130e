#include "textflag.h"

// func socketcall(call uintptr) int32
TEXT ·socketcall(SB), NOSPLIT, $0-12
	MOVL $102, AX
	MOVQ call+0(FP), BX
	XORL CX, CX
	INT  $0x80
	MOVL AX, ret+8(FP)
	RET
