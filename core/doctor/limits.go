package doctor

// Limits are the thresholds of the decision tree. They stand on one machine of
// two packages whose three states were published, and on doubled spreads
// (research: 67.1/100.2 exposed, 85.7 to 86.7 and 87.1 to 89.1 interleaved).
type Limits struct {
	// Far: from this ratio memory of another package is really another place.
	// Seen: 1.47 to 1.50 diluted by caches, 1.79 true.
	Far float64
	// Flat: up to this spread all is one place. Seen when interleaved: 1.2 % and
	// 2.3 %; doubled. Between Flat and Far nothing is said.
	Flat float64
	// Gap: two clusters of pages must lie this many standard deviations apart,
	// and Cluster is the least share of pages in each.
	Gap, Cluster float64
	// Half: bandwidth below this share of what the channels could do means
	// empty channels. Seen: 32 of 85 GB/s with half the channels, 65 with all.
	Half float64
	// Asymmetric: lowest over highest local bandwidth.
	Asymmetric float64
	// Memory: difference of node sizes, relative to the largest.
	Memory float64
	// Scale: the SLIT may be off by this much before it is called misscaled.
	Scale float64
	// Order: a "nearer" node must be slower by this much to be called wrong.
	Order float64
	// Sigma and Rejected: above these a measurement is not believed.
	Sigma, Rejected float64
}

// DefaultLimits are those the fixtures were judged with.
var DefaultLimits = Limits{
	Far: 1.20, Flat: 0.05, Gap: 5, Cluster: 0.10, Half: 0.60, Asymmetric: 0.85,
	Memory: 0.10, Scale: 0.30, Order: 0.05, Sigma: 0.05, Rejected: 50,
}

// The states a machine can be in.
const (
	Undecided             = "UNDECIDED"
	UMA                   = "UMA"
	HiddenByKernel        = "HIDDEN_BY_KERNEL"
	HiddenByFirmware      = "HIDDEN_BY_FIRMWARE"
	BIOSInterleaved       = "BIOS_INTERLEAVED"
	HostNUMAHidden        = "HOST_NUMA_HIDDEN_FROM_GUEST"
	UMAOrInterleaved      = "UMA_OR_INTERLEAVED"
	FakeNUMA              = "FAKE_NUMA"
	FlatVNUMA             = "FLAT_VNUMA"
	InterleavedBelowNodes = "INTERLEAVED_BELOW_NODES"
	SLITInvalid           = "SLIT_INVALID"
	SLITWrongOrder        = "SLIT_WRONG_ORDER"
	SLITMisscaled         = "SLIT_MISSCALED"
	MemorylessNode        = "MEMORYLESS_NODE"
	CPUlessNode           = "CPULESS_NODE"
	AsymmetricDIMMs       = "ASYMMETRIC_DIMMS"
	UnevenNodes           = "UNEVEN_NODES"
	Underpopulated        = "UNDERPOPULATED_CHANNELS"
	CellsExcluded         = "CELLS_EXCLUDED"
	Healthy               = "HEALTHY"
)
