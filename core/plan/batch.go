package plan

// Batch is what is written in one transaction: all of it or nothing.
type Batch struct {
	// Entries are put by their Seq; those Restored or Gone are taken out.
	Entries []Entry
	// Placements replaces the ledger of homes unless nil.
	Placements *Homes
	// Moves replaces the record of each one's workload.
	Moves []Move
	// Events are appended to the history, which keeps a bounded number of them and
	// numbers them.
	Events []Event
	// Values are the small things that have no table, kept as JSON by key.
	Values map[string]any
}

// KeyVersion is the key among Values of the version of homenode that wrote last: who cannot
// read what it wrote names it.
const KeyVersion = "version"

// Empty reports whether there is nothing to write.
func (b *Batch) Empty() bool {
	return len(b.Entries) == 0 && b.Placements == nil && len(b.Moves) == 0 && len(b.Events) == 0 && len(b.Values) == 0
}
