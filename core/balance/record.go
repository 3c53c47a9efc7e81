package balance

// Schema names the form of a record.
const Schema = "homenode-flight/1"

// Record is one tick as the flight recorder keeps it: enough to decide again.
type Record struct {
	Schema string `json:"schema"`
	// Memory is what the tick began with. It stands where a log begins; after that
	// each tick hands it to the next.
	Memory  *Memory `json:"memory,omitempty"`
	Input   Input   `json:"input"`
	Outcome Outcome `json:"outcome"`
}
