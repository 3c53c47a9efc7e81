package words

// OneNodeUses lists the uses of homenode on a host with one NUMA node.
var OneNodeUses = says("one-node-uses",
	"Still useful here: dedicated CPUs for work (homenode run --class dedicated), batch work on idle CPUs (homenode "+
		"share), CPUs for guests (homenode vm), and interrupts (homenode host).")

// Headlines of the page.
var (
	HouseUnseen = says("house-unseen", "The first scan of this machine is running.")
	HouseEmpty  = says("house-empty", "No workload here is large enough to need a home.")
	HouseHeld   = says("house-held",
		"Everything is held: homenode changes nothing until `homenode resume --all`. At home: {} of {n workload}.")
	HouseAtHome = says("house-at-home", "All online work is at home: {n workload}, {%} of memory accesses are local.")
	HousePlaced = says("house-placed",
		"Nothing is left to move: {n workload}, {%} of memory accesses are local. The others belong to work that "+
			"spans nodes or is left alone.")
	HouseBatch   = says("house-batch", "Batch work alone runs here: {n workload}.")
	HouseAllHome = says("house-all-home", "All online work is at home: {n workload}.")
	HouseMoving  = says("house-moving", "{} moves to {nodes}: {bytes} of {bytes} done{}.{}")
	HouseMovingN = says("house-moving-n",
		"{n workload} move. The largest, {}, goes to {nodes}: {bytes} of {bytes} done{}.{}")
	HouseTimeLeft = says("house-time-left", ", {} left")
	HouseGain     = says("house-gain", " Its local accesses: {%} before, {%} after.")
	HouseAway     = says("house-away", "Not at home: {} of {n workload}.{}")
	HouseWould    = says("house-would", " In enforce mode local accesses would rise from {%} to {%}.")
	HouseWill     = says("house-will", " Local accesses rise from {%} to {%} once they are.")
	HouseTrouble  = says("house-trouble", "Without a home that fits: {} of {n workload}. {}: {}")
)
