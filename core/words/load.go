package words

// Kinds of load.
var (
	LoadLatency = says("load-latency",
		"Latency-bound: it starts running {.0f} times a second, for {.2f} ms each time; its busy threads sleep {%} "+
			"of the time and wait for {%} of the CPU time they want.")
	LoadInterrupts = says("load-interrupts",
		"Interrupt-heavy: it starts running {.0f} times a second, for {.2f} ms each time; its vhost threads use "+
			"{.2f} of its {.2f} CPUs.")
	LoadSteady = says("load-steady",
		"Steady: it runs for {.2f} ms each time, and its busy threads sleep {%} of the time.")
	LoadSuggests   = says("load-suggests", "Suggested importance: {}; recognise: apply sets it.")
	LoadApplied    = says("load-applied", "It has importance {} for that reason; no rule sets one.")
	LoadsSuggested = says("loads-suggested",
		"Its kind of load suggests an importance for {list}: homenode explain gives the reason; recognise: apply "+
			"sets it.")
	LoadTold = says("load-told", "Suggested importance: {}; it has {}, set by a rule or its source.")
)
