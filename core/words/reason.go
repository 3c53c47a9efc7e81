package words

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Code names a reason; it is stable, for programs and as a label of metrics.
type Code string

// Reason is why something was decided, done or left undone: a code and the values
// that its sentence is made of. The zero Reason is none.
//
// A value is a number, a text, a set (anything with String), a Reason that is part of
// this one, or a list of texts or Reasons. It is not changed after it was given. JSON
// keeps all but the Go types: what was read back makes the same sentence.
type Reason struct {
	Code Code
	Args []any // in the order of the sentence

	text string // as it was read, for a code that this version does not know
}

// before has the codes that had offline in their names before version 0.2, as history and flight
// logs of then have them.
var before = map[Code]Code{
	"offline-cpus": BatchCPUs, "offline-homeless": BatchHomeless, "offline-memory": BatchMemory,
	"offline-no-moves": BatchNoMoves, "share-not-offline": ShareNotBatch, "starves-offline": StarvesBatch,
}

// UnmarshalText reads a code, and replaces one of before by its current name.
func (c *Code) UnmarshalText(text []byte) error {
	*c = Code(text)
	if now, renamed := before[*c]; renamed {
		*c = now
	}
	return nil
}

// Because returns a reason with its values, in the order of the sentence.
func Because(code Code, args ...any) Reason { return Reason{Code: code, Args: args} }

// Reasons returns a list of reasons, as a value of a reason made of several.
func Reasons(r ...Reason) []Reason { return r }

// Text is a sentence without a code, from a version before codes or from another program.
var Text = says("text", "{}")

// Plain returns a reason with a fixed sentence; none for an empty one.
func Plain(sentence string) Reason {
	if sentence == "" {
		return Reason{}
	}
	return Because(Text, sentence)
}

// None reports whether r is the zero Reason.
func (r Reason) None() bool { return r.Code == "" }

// String returns the sentence; "" for none.
func (r Reason) String() string {
	if r.None() {
		return ""
	}
	sentence, ok := sentences[r.Code]
	switch {
	case r.text != "":
		return r.text
	case ok:
		return format(sentence, r.Args)
	}
	return strings.TrimSpace(string(r.Code) + " " + join(r.Args, " ", " "))
}

// Equal reports whether two reasons have the same code and the same sentence.
func (r Reason) Equal(other Reason) bool { return r.Code == other.Code && r.String() == other.String() }

// Sentences returns the sentences of reasons.
func Sentences(reasons []Reason) []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = r.String()
	}
	return out
}

// Join returns the sentences of reasons, separated by spaces.
func Join(reasons []Reason) string { return strings.Join(Sentences(reasons), " ") }

type reasonJSON struct {
	Code Code   `json:"code"`           // code of the reason; does not change between versions
	Text string `json:"text,omitempty"` // the reason in a sentence, for people; may change between versions
	Args []any  `json:"args,omitempty"` // values in the sentence, in its order
}

// MarshalJSON writes the code, the sentence and the values.
func (r Reason) MarshalJSON() ([]byte, error) {
	if r.None() {
		return []byte("null"), nil
	}
	return json.Marshal(reasonJSON{r.Code, r.String(), r.values()})
}

// values is Args as JSON can hold them. A part of a reason has no text of its own.
func (r *Reason) values() []any {
	out := make([]any, len(r.Args))
	for i, a := range r.Args {
		out[i] = a
		switch a := plain(a).(type) {
		case Reason:
			out[i] = reasonJSON{a.Code, a.text, a.values()}
		case []any:
			part := Reason{Args: a}
			out[i] = part.values()
		default:
			out[i] = a
		}
	}
	return out
}

// UnmarshalJSON reads the format of MarshalJSON, or a sentence from a version before codes.
func (r *Reason) UnmarshalJSON(b []byte) error {
	var text string
	if bytes.HasPrefix(b, []byte(`"`)) && json.Unmarshal(b, &text) == nil {
		*r = Plain(text)
		return nil
	}
	var j struct {
		Code Code              `json:"code"`
		Text string            `json:"text"`
		Args []json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*r = Reason{Code: j.Code}
	for _, raw := range j.Args {
		a, err := readArg(raw)
		if err != nil {
			return err
		}
		r.Args = append(r.Args, a)
	}
	if !r.complete() {
		r.text = j.Text
	}
	return nil
}

// complete reports whether the sentences of a reason and of its parts are known and have all their values. An
// earlier version may have recorded fewer.
func (r Reason) complete() bool {
	sentence, known := sentences[r.Code]
	if !known || places(sentence) > len(r.Args) {
		return false
	}
	for _, a := range r.Args {
		part, ok := a.(Reason)
		if ok && !part.complete() {
			return false
		}
	}
	return true
}

func readArg(raw json.RawMessage) (any, error) {
	switch {
	case bytes.HasPrefix(raw, []byte("{")):
		var r Reason
		err := r.UnmarshalJSON(raw)
		return r, err
	case bytes.HasPrefix(raw, []byte("[")):
		var all []json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
		list := make([]any, len(all))
		for i := range all {
			var err error
			if list[i], err = readArg(all[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	var whole int64
	if json.Unmarshal(raw, &whole) == nil && !bytes.Equal(raw, []byte("null")) {
		return whole, nil
	}
	var a any
	err := json.Unmarshal(raw, &a)
	return a, err
}

// sentences has the words of every code.
var sentences = map[Code]string{}

// says gives a code its sentence; see format.
func says(code Code, sentence string) Code {
	if _, twice := sentences[code]; twice {
		panic("words: two sentences for " + code)
	}
	sentences[code] = sentence
	return code
}
