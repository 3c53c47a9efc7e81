package words

// What kind of load a workload is.
var (
	LoadLatency    = says("load-latency", "It is latency-bound: it is put on a CPU {.0f} times a second, for {.2f} ms each time; its busy threads sleep {%} of the time and wait for {%} of what they want to run.")
	LoadInterrupts = says("load-interrupts", "It is interrupt-heavy: it is put on a CPU {.0f} times a second, for {.2f} ms each time; its vhost threads use {.2f} of its {.2f} CPUs.")
	LoadSteady     = says("load-steady", "It is steady: it runs for {.2f} ms each time, and its busy threads sleep {%} of the time.")
	LoadSuggests   = says("load-suggests", "Importance {} is suggested; recognise: apply gives it that.")
	LoadApplied    = says("load-applied", "It has importance {} by that, since nobody has said how important it is.")
	LoadsSuggested = says("loads-suggested", "By its kind of load importance is suggested for {list}: homenode explain says why; recognise: apply gives it.")
	LoadTold       = says("load-told", "Importance {} is suggested; it has {}, as somebody has said.")
)
