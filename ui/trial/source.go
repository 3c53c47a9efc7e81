package trial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/words"
)

// Source reads one metric. ok is false where there is nothing to read yet.
type Source interface {
	Read(ctx context.Context) (value float64, ok bool, err error)
}

// Command is a metric that a shell command prints.
type Command struct {
	Text string
	// Within is how long it may take.
	Within time.Duration
}

// Read runs the command with the rights of whoever runs this program.
func (c *Command) Read(ctx context.Context) (float64, bool, error) {
	bounded, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	sh := exec.CommandContext(bounded, "sh", "-c", c.Text)
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	sh.Cancel = func() error { return syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) }
	sh.WaitDelay = time.Second
	var out, errs limited
	sh.Stdout, sh.Stderr = &out, &errs
	err := sh.Run()
	switch {
	case ctx.Err() != nil:
		return 0, false, ctx.Err()
	case bounded.Err() != nil:
		return 0, false, fmt.Errorf("it had not ended after %v", c.Within)
	case err != nil:
		return 0, false, fmt.Errorf("%w%s", err, lastLine(errs.String()))
	}
	value, err := number(out.String())
	if err != nil {
		return 0, false, fmt.Errorf("it printed %s", err)
	}
	return value, true, nil
}

// limited keeps the beginning of what is written.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, 4096-l.Len()))])
	return len(p), nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return ": " + words.Printable(text[strings.LastIndexByte(text, '\n')+1:])
}

// number is the one number that a text is.
func number(text string) (float64, error) {
	fields := strings.Fields(text)
	if len(fields) != 1 {
		return 0, fmt.Errorf("%.60q; want one number", strings.TrimSpace(text))
	}
	return finite(fields[0])
}

// mostValue is the largest value of a metric. The fourth power of it, and the sum of many, are finite: what a trial
// calculates can be written as JSON.
const mostValue = 1e60

func finite(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	isNumber := err == nil && math.Abs(x) <= mostValue // NaN is not
	if !isNumber {
		return 0, fmt.Errorf("%.60q; want a number", text)
	}
	return x, nil
}

// Query is a metric that Prometheus has.
type Query struct {
	URL, Text string
}

// Read asks for the query's value now (Prometheus, HTTP API, "Instant queries").
func (q *Query) Read(ctx context.Context) (float64, bool, error) {
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	x, ok, err := q.read(bounded)
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, false, fmt.Errorf("%s did not answer in time", q.server())
	}
	return x, ok, err
}

// server is the address without a password, for errors.
func (q *Query) server() string {
	u, err := url.Parse(q.URL)
	if err != nil {
		return "the server"
	}
	return u.Redacted()
}

func (q *Query) read(bounded context.Context) (float64, bool, error) {
	req, err := http.NewRequestWithContext(bounded, "GET", strings.TrimSuffix(q.URL, "/")+"/api/v1/query?query="+
		url.QueryEscape(q.Text), nil)
	if err != nil {
		return 0, false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, false, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, false, fmt.Errorf("%s: the answer is not that of Prometheus (%s)", q.server(), resp.Status)
	}
	if answer.Status != "success" {
		return 0, false, fmt.Errorf("%s: %s", q.server(), words.Printable(cmp.Or(answer.Error, resp.Status)))
	}
	var pair []any
	if answer.Data.ResultType == "vector" {
		var all []struct{ Value []any }
		if err := json.Unmarshal(answer.Data.Result, &all); err != nil {
			return 0, false, err
		}
		switch len(all) {
		case 0:
			return 0, false, nil
		case 1:
			pair = all[0].Value
		default:
			return 0, false, fmt.Errorf("the query has %d results; want one, such as sum(…)", len(all))
		}
	} else if err := json.Unmarshal(answer.Data.Result, &pair); err != nil || answer.Data.ResultType != "scalar" {
		return 0, false, fmt.Errorf("the query returns a %s; want one number", answer.Data.ResultType)
	}
	if len(pair) != 2 {
		return 0, false, errors.New("the answer has no value")
	}
	text, _ := pair[1].(string)
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false, fmt.Errorf("the answer has the value %.40q", text)
	}
	return x, math.Abs(x) <= mostValue, nil
}

// File is a metric in a log or a file. What a log has grown by is read, and its numbers are
// averaged; of a file that was written anew the last number counts.
type File struct {
	Path    string
	Pattern *regexp.Regexp // its first group, or all of it, is the number
	Most    int64          // newest bytes that are read at once; mostOfLog when 0

	seen  bool
	size  int64
	inode uint64
	last  time.Time // changed
}

// mostOfLog bounds what is read of a log at once.
const mostOfLog = 16 << 20

// Read reads what is new.
func (f *File) Read(context.Context) (float64, bool, error) {
	in, err := openFile(f.Path)
	if err != nil {
		return 0, false, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, false, err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	first, from := !f.seen, int64(0)
	grew := f.seen && inode == f.inode && info.Size() > f.size
	if grew {
		from = f.size
	}
	same := f.seen && inode == f.inode && info.Size() == f.size && info.ModTime().Equal(f.last)
	f.seen = true
	f.size = info.Size()
	f.inode = inode
	f.last = info.ModTime()
	if same {
		return 0, false, nil
	}
	least := info.Size() - cmp.Or(f.Most, mostOfLog)
	cut := from < least
	from = max(from, least)
	text, err := io.ReadAll(io.NewSectionReader(in, from, info.Size()-from))
	if err != nil {
		return 0, false, err
	}
	if cut { // its first line is a part of one
		part := bytes.IndexByte(text, '\n') + 1
		text = text[part:]
		from += int64(part)
	}
	if grew { // a line that is being written is read when it is whole
		whole := bytes.LastIndexByte(text, '\n') + 1
		f.size = from + int64(whole)
		text = text[:whole]
	}
	sum := 0.0
	n := 0
	last := 0.0
	for _, m := range f.Pattern.FindAllSubmatch(text, -1) {
		x, err := finite(string(m[min(1, len(m)-1)]))
		if err != nil {
			return 0, false, fmt.Errorf("%s matches %w", f.Pattern, err)
		}
		sum = sum + x
		n = n + 1
		last = x
	}
	switch {
	case n == 0 && first:
		return 0, false, fmt.Errorf("%s: nothing matches %s", f.Path, f.Pattern)
	case n == 0:
		return 0, false, nil
	case grew:
		return sum / float64(n), true, nil
	}
	return last, true, nil
}
