package balance

import "encoding/json"

// Schema names the form of a record.
const Schema = "homenode-flight/1"

// Record is one tick as the flight recorder keeps it: enough to decide again.
type Record struct {
	Schema string `json:"schema"`
	// Memory is what the tick began with. It stands where a file begins; after that
	// each tick hands it to the next.
	Memory  *Memory `json:"memory,omitempty"`
	Input   Input   `json:"input"`
	Outcome Outcome `json:"outcome"`
}

// Logged is a Record as it was read: the outcome byte by byte.
type Logged struct {
	Schema  string          `json:"schema"`
	Memory  *Memory         `json:"memory,omitempty"`
	Input   Input           `json:"input"`
	Outcome json.RawMessage `json:"outcome"`
}
