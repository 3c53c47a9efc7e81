# sender: what runs in the guest of the libvirt suite that has a network card. Its one
# vCPU writes one word into every page of memory from 1 MiB up, over and over, until a key is
# pressed. From then on it sends: all of the ring of a virtio card (legacy interface, virtio 1.2,
# 2.7 and 5.1) is full of one Ethernet frame of 1514 bytes to an address that nobody has.
#
# A file of 64 KiB, a firmware of its own (<loader type='rom'>), as the pacer is.
#
#   as --32 -I . -o sender.o sender.s && ld -m elf_i386 -Ttext=0 -e 0 --oformat binary -o sender sender.o

	.equ	HERE, 0x8000		# where the program copies itself to
	.equ	STACK, 0x7000
	.equ	BAR, 0xc000		# I/O ports that the card is given
	.equ	RX, 0x10000		# its queues: descriptors, available, used, of at
	.equ	TX, 0x20000		# most 1024, for which 64 KiB are enough
	.equ	FRAME, 0x30000
	.equ	LENGTH, 10 + 1514		# header of virtio-net, all 0, and the frame

	.include "flat.inc"

	.code16
start:	cli
	cld
	xor	%ax, %ax
	mov	%ax, %es
	mov	%cs, %ax
	mov	%ax, %ds
	xor	%si, %si
	mov	$HERE, %di
	mov	$1024, %cx
	rep	movsb
	ljmp	$0, $(HERE + protect)
protect:
	to_flat
	mov	$STACK, %esp

# The card: the first function 1af4:1000 of bus 0.
find:	mov	$0x80000000, %ebx
1:	mov	%ebx, %eax
	call	config
	in	%dx, %eax
	cmp	$0x10001af4, %eax
	je	found
	add	$0x800, %ebx
	cmp	$0x80010000, %ebx
	jb	1b
	jmp	find
found:	lea	0x10(%ebx), %eax		# BAR 0
	call	config
	mov	$BAR, %eax
	out	%eax, %dx
	lea	4(%ebx), %eax			# command: I/O space, bus master
	call	config
	mov	$5, %eax
	out	%eax, %dx

# Both queues, that for receiving without buffers; no features.
	mov	$RX, %edi			# all 0 at first
	mov	$((FRAME + 0x1000 - RX) / 4), %ecx
	xor	%eax, %eax
	rep	stosl
	call	status
	mov	$3, %al				# acknowledged, with a driver
	call	status
	mov	$(BAR + 4), %edx
	xor	%eax, %eax
	out	%eax, %dx
	mov	$RX, %ecx
	call	queue
	inc	%eax
	mov	$TX, %ecx
	call	queue
	mov	$(BAR + 12), %edx		# its size is the device's to say: ebp
	in	%dx, %ax
	movzwl	%ax, %ebp
	mov	%ebp, %esi			# esi: what is available
	shl	$4, %esi
	add	$TX, %esi
	mov	$TX, %edi			# every descriptor is the frame
	xor	%eax, %eax
2:	movl	$FRAME, (%edi)
	movl	$LENGTH, 8(%edi)
	mov	%ax, 4(%esi, %eax, 2)
	add	$16, %edi
	inc	%eax
	cmp	%ebp, %eax
	jb	2b
	movw	$1, (%esi)			# no interrupts
	lea	6 + 4095(%esi, %ebp, 2), %ecx	# ecx: what is used, from the next page on
	and	$-4096, %ecx
	movl	$0x02, FRAME + 10		# to 02:00:00:00:00:00
	movl	$0x0102, FRAME + 16		# from 02:01:00:00:00:00
	movw	$0xb588, FRAME + 22		# 88b5, for experiments (IEEE 802)
	mov	$7, %al				# and the driver is ready
	call	status

# Memory, until a key is pressed. The CMOS tells how much lies above 16 MiB, in 64 KiB.
	memory_end
round:	mov	$0x100000, %edi
page:	incl	(%edi)
	add	$4096, %edi
	test	$0xff000, %edi			# a MiB is done
	jnz	4f
	in	$0x64, %al			# the keyboard has something to say
	test	$1, %al
	jnz	send
4:	cmp	%ebx, %edi
	jb	page
	jmp	round

# As much as the queue holds more than was sent, again and again.
send:	mov	2(%ecx), %ax
	add	%bp, %ax
	cmp	2(%esi), %ax
	je	send
	mov	%ax, 2(%esi)
	mfence					# for the flag is the other side's to write
	testb	$1, (%ecx)
	jnz	send
	mov	$1, %eax
	mov	$(BAR + 16), %edx
	out	%ax, %dx
	jmp	send

# config points at a register of a function, in eax; its value is at port dx.
config:	mov	$0xcf8, %edx
	out	%eax, %dx
	mov	$0xcfc, %edx
	ret

status:	mov	$(BAR + 18), %edx
	out	%al, %dx
	ret

# queue puts the queue ax at the address ecx.
queue:	mov	$(BAR + 14), %edx
	out	%ax, %dx
	push	%eax
	mov	%ecx, %eax
	shr	$12, %eax
	mov	$(BAR + 8), %edx
	out	%eax, %dx
	pop	%eax
	ret

cmos:	out	%al, $0x70
	in	$0x71, %al
	ret

	.balign	8
	descriptors

	.org	0xfff0
	.code16
	ljmp	$0xf000, $0			# a processor starts 16 bytes below 4 GiB
	.org	0x10000
