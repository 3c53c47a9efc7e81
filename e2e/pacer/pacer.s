# pacer: all that runs in the guests of the libvirt suite. It starts every vCPU;
# each writes one word into every page of memory from 1 MiB up, over and over, and
# after the first round sleeps for a while after each MiB. On the first serial line
# it says R when it starts and D when the first round is done.
#
# One file of 64 KiB is both a boot disk (of 1 MiB or more, or a BIOS takes it for none),
# whose first sector a BIOS loads to 0x7c00,
# and a firmware of its own (<loader type='rom'>): the reset vector at its end jumps to
# the same first sector, which is the whole program.
#
#   as --32 -I . -o pacer.o pacer.s && ld -m elf_i386 -Ttext=0 -e 0 --oformat binary -o pacer pacer.o
#
# The four bytes at 502 are the size of a NUMA node of the guest, and the byte at 501 by how
# many bits to shift the ID of a vCPU's APIC for the number of its node: a vCPU then walks over
# its own node alone. 0 at 502 is for all memory.
#
# The four bytes at 506 say how long a vCPU sleeps, in ticks of 16 ns (QEMU's local
# APIC counts at 1 GHz, divided by 16 here); 0 is never.

	.equ	HERE, 0x8000		# where the program copies itself to
	.equ	AP, 0x9000		# where other vCPUs start; a page, for the SIPI names one
	.equ	STACKS, 0x7000		# 256 bytes a vCPU, downwards
	.equ	IDT, 0x4000
	.equ	APIC, 0xfee00000	# local APIC, Intel SDM volume 3, chapter "APIC"
	.equ	TIMER, 0x40		# vector

	.include "flat.inc"

	.code16
start:	cli
	cld
	xor	%ax, %ax
	mov	%ax, %ss
	mov	$STACKS, %sp
	mov	%ax, %es
	call	1f			# where am I? 0:7c00 or f000:0
1:	pop	%si
	sub	$(1b - start), %si
	mov	%cs, %ax
	mov	%ax, %ds
	mov	$HERE, %di
	mov	$512, %cx
	rep	movsb
	ljmp	$0, $(HERE + protect)

# The first vCPU comes here from above, the others by way of AP.
protect:
	cli
	to_flat
	mov	$1, %ebp
	lock xadd %ebp, HERE + vcpus	# ebp: which vCPU this is
	mov	%ebp, %eax
	shl	$8, %eax
	mov	$STACKS, %esp
	sub	%eax, %esp
	mov	$APIC, %esi
	test	%ebp, %ebp
	jnz	pace

# The first vCPU: interrupts of the PICs off, one handler for all others, and every
# other vCPU started by INIT and SIPI to all but itself.
	mov	$'R', %al
	call	say
	mov	$0xff, %al
	out	%al, $0x21
	out	%al, $0xa1
	mov	$IDT, %edi
	mov	$256, %ecx
2:	movl	$(0x80000 + HERE + handler), (%edi)	# code segment 8
	movl	$0x8e00, 4(%edi)			# interrupt gate
	add	$8, %edi
	loop	2b
	movb	$0xea, AP				# a far jump
	movl	$(HERE + protect), AP + 1		# to 0:protect
	movl	$0x1ff, 0xf0(%esi)
	movl	$0xc4500, 0x300(%esi)
	mov	$0x80000, %ecx
3:	loop	3b
	movl	$(0xc4600 + AP / 4096), 0x300(%esi)

pace:	lidt	HERE + idtr
	movl	$0x1ff, 0xf0(%esi)
	movl	$3, 0x3e0(%esi)				# divide by 16
	movl	$(0x20000 + TIMER), 0x320(%esi)		# again and again
	mov	HERE + ticks, %eax
	mov	%eax, 0x380(%esi)
	# The CMOS tells how much memory lies above 16 MiB, in 64 KiB.
	memory_end
	mov	0x20(%esi), %eax
	shr	$24, %eax
	mov	HERE + shift, %cl
	shr	%cl, %eax
	imull	HERE + size, %eax
	mov	HERE + size, %ecx
	jecxz	5f
	lea	(%eax, %ecx), %ebx
5:	test	%eax, %eax
	jnz	6f
	mov	$0x100000, %eax
6:	lea	(%eax, %ebp, 8), %eax
	push	%eax					# where this vCPU begins
	xor	%edx, %edx				# edx: rounds done
round:	mov	(%esp), %edi				# each vCPU has words of its own
page:	incl	(%edi)
	add	$4096, %edi
	test	$0xff000, %edi				# a MiB is done
	jnz	4f
	test	%edx, %edx
	jz	4f
	cmpl	$0, HERE + ticks
	je	4f
	sti
	hlt
	cli
4:	cmp	%ebx, %edi
	jb	page
	inc	%edx
	test	%ebp, %ebp
	jnz	round
	cmp	$1, %edx
	jne	round
	mov	$'D', %al
	call	say
	jmp	round

cmos:	out	%al, $0x70
	in	$0x71, %al
	ret

say:	push	%edx
	mov	$0x3f8, %edx
	out	%al, %dx
	pop	%edx
	ret

handler:
	movl	$0, APIC + 0xb0				# end of interrupt
	iret

	.balign	8
	descriptors
idtr:	.word	256 * 8 - 1
	.long	IDT
vcpus:	.long	0

	.org	501
shift:	.byte	0
size:	.long	0
	.org	506
ticks:	.long	62500000				# 1 s
	.byte	0x55, 0xaa				# a boot sector

	.org	0xfff0
	.code16
	ljmp	$0xf000, $0				# a processor starts 16 bytes below 4 GiB
	.org	0x10000
