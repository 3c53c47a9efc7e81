// Command vmlinux takes the ELF kernel out of a bzImage.
//
//	vmlinux BZIMAGE OUT
//
// The payload's place is in the setup header (Documentation/arch/x86/boot.rst,
// payload_offset and payload_length, protocol 2.08). It is compressed with
// whatever the distribution chose; Debian's cloud kernels use zstd, for which
// the standard library has no reader, so the zstd and xz command lines do it.
package main
