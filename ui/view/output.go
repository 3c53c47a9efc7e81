package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/homenode/homenode/core/words"
)

// Output is standard output or standard error. It lets text and the colours of this
// program through and spells out every other control sequence; in a locale that is not
// UTF-8 everything becomes ASCII. A line that is wider than the terminal goes on below. It
// remembers the first write that failed, so that no command has to look at each line it prints.
type Output struct {
	w       io.Writer
	ascii   bool
	colours bool
	width   int    // columns that a line may have; 0 is no limit
	rest    []byte // the begin of a rune or of a colour whose end is still to be written
	line    []byte // the begin of a line, where lines have a limit
	err     error
}

// NewOutput is what writes to w in the environment that getenv tells of.
func NewOutput(w io.Writer, getenv func(string) string) *Output {
	return &Output{w: w, ascii: !UTF8(getenv), colours: true, width: columns(w, getenv)}
}

// Within folds what is written at a width in columns, as a terminal of that width has it; 0
// folds nothing.
func (o *Output) Within(width int) *Output {
	o.width = width
	return o
}

// Err is the first error of a write, without a path; nil when the reader just stopped
// reading.
func (o *Output) Err() error { return o.err }

// Raw is the output for what is not text: archives, and documents for programs.
func (o *Output) Raw() io.Writer { return rawOutput{o} }

// Raw is the output below w for what is not text.
func Raw(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok {
		return o.Raw()
	}
	return w
}

// JSON writes to w a document that begins and ends each value in one Write, with what is
// not printable escaped as JSON does.
func JSON(w io.Writer) io.Writer { return document{w, jsonRune} }

// XML writes to w a document, with what is not printable as a character reference.
func XML(w io.Writer) io.Writer {
	return document{w, func(r rune) string { return fmt.Sprintf("&#x%x;", r) }}
}

func jsonRune(r rune) string {
	if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
		return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

type document struct {
	w      io.Writer
	escape func(rune) string
}

func (d document) Write(b []byte) (int, error) {
	var out bytes.Buffer
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		switch {
		case r == utf8.RuneError && n == 1, r == '\n', r == '\t', r == '\r', unicode.IsPrint(r):
			out.Write(b[at : at+n])
		default:
			out.WriteString(d.escape(r))
		}
		at += n
	}
	if _, err := d.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

type rawOutput struct{ o *Output }

func (r rawOutput) Write(b []byte) (int, error) {
	if err := r.o.flush(); err != nil {
		return 0, err
	}
	return r.o.put(b)
}

func (o *Output) put(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil && o.err == nil && !errors.Is(err, syscall.EPIPE) {
		o.err = err
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			o.err = path.Err
		}
	}
	return n, err
}

// colour is a sequence of this program's own (ECMA-48, SGR): bold, faint, a colour.
// Those that hide text are not among them.
var colour = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\x1b\[(?:0|1|2|22|39|49|[349][0-7]|[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3})?m`)
})

// maxColour is as long as one gets.
const maxColour = len("\x1b[38;2;255;255;255m")

func (o *Output) Write(b []byte) (int, error) {
	text := append(o.rest, b...)
	o.rest = nil
	var out bytes.Buffer
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRune(text[at:]):
			o.rest, n = text[at:], len(text)-at
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[at])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r == 0x1b && o.colours && len(text)-at < maxColour && colourBegins(text[at:]):
			o.rest, n = text[at:], len(text)-at
		default:
			if c := colour().Find(text[at:]); c != nil && o.colours {
				out.Write(c)
				n = len(c)
				break
			}
			out.WriteString(words.Printable(string(r)))
		}
		at += n
	}
	o.rest = bytes.Clone(o.rest)
	clean := out.Bytes()
	if o.ascii {
		clean = []byte(ASCII(out.String()))
	}
	if o.width > 0 {
		clean = o.folded(clean)
	}
	if _, err := o.put(clean); err != nil {
		return 0, err
	}
	return len(b), nil
}

// folded is the lines that are whole by now, each within the width.
func (o *Output) folded(text []byte) []byte {
	var out []byte
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		o.line = append(o.line, line...)
		if !whole {
			return out
		}
		out = append(append(out, fold(string(o.line), o.width)...), '\n')
		o.line, text = nil, rest
	}
}

// flush writes the begin of a line that waits for its end.
func (o *Output) flush() error {
	line := o.line
	o.line = nil
	if len(line) == 0 {
		return nil
	}
	_, err := o.put([]byte(fold(string(line), o.width)))
	return err
}

// colourBegins reports whether all of b may be the begin of a colour.
func colourBegins(b []byte) bool {
	return len(b) == 1 || (b[1] == '[' && len(bytes.TrimLeft(b[2:], "0123456789;")) == 0)
}

// Close writes what was kept because its end never came.
func (o *Output) Close() error {
	o.line = append(o.line, words.Printable(string(o.rest))...)
	o.rest = nil
	return o.flush()
}

// UTF8 reports whether the locale is, as setlocale(3) reads it. Where none is set it is
// taken for granted, as in containers.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}

// ASCII is text with one character of ASCII for each sign, so that columns stay straight.
func ASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case asciiSigns[r] != 0:
			b.WriteByte(asciiSigns[r])
		default: // of a name
			b.WriteString(strings.Repeat("?", ansi.StringWidth(string(r))))
		}
	}
	return b.String()
}

var asciiSigns = signs("█#▒+░.×x✗x→>—-–-…~·.≤<≥>│|─-├+└+┌+┐+┘+┤+┬+┴+┼+µu±~−-●*○o‖|↑^↓v←<▏.▎.▍.▌#▋#▊#▉#▁_▂.▃-▄=▅+▆*▇#")

// signs reads pairs: a sign and what stands for it.
func signs(pairs string) map[rune]byte {
	r, m := []rune(pairs), map[rune]byte{}
	for i := 0; i+1 < len(r); i += 2 {
		m[r[i]] = byte(r[i+1])
	}
	return m
}

// Terminal is the terminal that w writes to, nil for none.
func Terminal(w io.Writer) *os.File {
	if o, ok := w.(*Output); ok {
		w = o.w
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
