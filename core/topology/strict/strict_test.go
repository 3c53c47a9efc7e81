package strict

import (
	"encoding/json"
	"testing"
)

// The forms that hosts do not use; topology tests the others.
func TestDecode(t *testing.T) {
	type doc struct {
		N    int              `json:"n"`
		P    *float64         `json:"p"`
		Rest json.RawMessage  `json:"rest"`
		By   map[string]int64 `json:"by"`
	}
	tests := []struct{ text, want string }{
		{`{"n":1,"p":null,"rest":{"any":[1,"x",{}]},"by":{"a":1,"b":2}}`, ""},
		{`{"rest":}`, "line 1 column 9: invalid character '}' at start of value"},
		{`{"rest":[`, "line 1 column 10: the input ends here; it was cut short or is not JSON"},
		{`{"n":null}`, "line 1 column 6: n is null; give a whole number"},
		{`{"n":99999999999999999999}`, "line 1 column 6: n is 99999999999999999999; give a whole number"},
		{`{"p":"x"}`, `line 1 column 6: p is the string "x"; give a number`},
		{`{"by":[]}`, "line 1 column 7: by is an array; give an object"},
		{"{\"by\":{\"a\":1,\n\"a\":2}}", `line 2 column 1: key "a" is there twice in by; keep one`},
		{`{"by":{"a":true}}`, `line 1 column 12: by.a is true; give a whole number`},
		{`{"by":{"a\n":1.5}}`, `line 1 column 14: by["a\n"] is 1.5; give a whole number`},
	}
	for _, tt := range tests {
		var d doc
		got := ""
		if err := New("the document", []byte(tt.text)).Decode(&d); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
		if tt.want == "" && (d.N != 1 || d.P != nil || string(d.Rest) != `{"any":[1,"x",{}]}` || d.By["b"] != 2) {
			t.Errorf("got %+v", d)
		}
	}
}
