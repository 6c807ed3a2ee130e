#include "textflag.h"

// Layout of op and outcome in plan.go.
#define OP_SIZE  80
#define OP_FLAGS 56
#define OP_SAVE  64
#define OP_WANT  72
#define MAY_FAIL 1
#define HAS_WANT 2
#define EPROTO   71

// func cloneAndRun(args unsafe.Pointer, size uintptr, ops unsafe.Pointer, n uintptr, out unsafe.Pointer) int
//
// The child shares the parent's memory and even its stack pointer, so it must
// not push, call or touch anything but ops and out. All signals are blocked.
TEXT ·cloneAndRun(SB),NOSPLIT,$0-48
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	ops+16(FP), BX
	MOVQ	n+24(FP), R12
	MOVQ	out+32(FP), R13
	MOVQ	$435, AX		// clone3
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, ret+40(FP)
	RET

child:
	XORQ	R15, R15		// index of the step

step:
	CMPQ	R15, R12
	JCC	exit
	MOVQ	0(BX), AX
	MOVQ	8(BX), DI
	MOVQ	16(BX), SI
	MOVQ	24(BX), DX
	MOVQ	32(BX), R10
	MOVQ	40(BX), R8
	MOVQ	48(BX), R9
	SYSCALL
	CMPQ	AX, $-4095
	JCC	failed			// unsigned: -4095..-1
	TESTQ	$HAS_WANT, OP_FLAGS(BX)
	JEQ	save
	CMPQ	AX, OP_WANT(BX)
	JNE	unwanted

save:
	MOVQ	OP_SAVE(BX), CX
	TESTQ	CX, CX
	JEQ	next
	MOVQ	AX, (CX)

next:
	ADDQ	$OP_SIZE, BX
	INCQ	R15
	JMP	step

failed:
	TESTQ	$MAY_FAIL, OP_FLAGS(BX)
	JNE	next
	JMP	report

unwanted:
	MOVQ	$-EPROTO, AX

report:
	MOVQ	AX, 8(R13)
	MOVQ	R15, 0(R13)

exit:
	MOVQ	$60, AX			// exit
	MOVQ	$127, DI
	SYSCALL
	JMP	exit
