package measure

import (
	"encoding/json"
	"math"
)

// Value is a measured quantity, or Unknown. Unknown is null in JSON, never 0.
type Value float64

// Unknown marks what was not measured or not told.
var Unknown = Value(math.NaN())

// Known reports whether v is a quantity.
func (v Value) Known() bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// MarshalJSON writes four significant digits more than any probe can resolve.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known() {
		return []byte("null"), nil
	}
	f := float64(v)
	if a := math.Abs(f); a >= 1e-6 && a < 1e15 {
		unit := math.Pow(10, 6-math.Ceil(math.Log10(a)))
		f = math.Round(f*unit) / unit
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads a number or null.
func (v *Value) UnmarshalJSON(data []byte) error {
	var f *float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*v = Unknown
	if f != nil {
		*v = Value(*f)
	}
	return nil
}

// Table is values by row and column.
type Table [][]Value

// NewTable is a table of unknowns.
func NewTable(rows, cols int) Table {
	t := make(Table, rows)
	for i := range t {
		t[i] = make([]Value, cols)
		for j := range t[i] {
			t[i][j] = Unknown
		}
	}
	return t
}

// At is an entry, Unknown where the table has none.
func (t Table) At(i, j int) Value {
	if i < 0 || j < 0 || i >= len(t) || j >= len(t[i]) {
		return Unknown
	}
	return t[i][j]
}

// Interval is a 95 % confidence interval.
type Interval [2]Value

// Has reports whether x lies in the interval.
func (i Interval) Has(x float64) bool { return float64(i[0]) <= x && x <= float64(i[1]) }

// Apart reports whether two intervals share no value. Unknown ones are not apart.
func (i Interval) Apart(o Interval) bool {
	return i.Known() && o.Known() && (i[1] < o[0] || o[1] < i[0])
}

// Known reports whether both ends are.
func (i Interval) Known() bool { return i[0].Known() && i[1].Known() }

// HalfWidth is half the width relative to the middle; 0 when unknown.
func (i Interval) HalfWidth() float64 {
	if mid := float64(i[0]+i[1]) / 2; i.Known() && mid > 0 {
		return float64(i[1]-i[0]) / 2 / mid
	}
	return 0
}
