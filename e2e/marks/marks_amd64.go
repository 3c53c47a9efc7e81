package marks

// Write makes the counting plugin begin to count where tag is 0. With another tag the plugin writes out
// what it counted under that tag, and ends. The programs that are counted must stand still.
func Write(tag uint32)

// From and To name memory for the plugin to count, by its addresses in units of 2 MiB: the first that is
// named is slot 0, the next slot 1.
func From(start uint32)
func To(end uint32)

// Here tells the plugin that the thread runs on this CPU, which in virtual time QEMU does not.
func Here(cpu uint32)
