//go:build linux

package share

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestQueried: the stand-in answers as Prometheus does ("Instant queries"), over one connection again and again.
func TestQueried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	q := &queried{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go q.serve(c)
		}
	}()
	for _, x := range []struct{ value, want string }{{"0.0012", "0.0012"}, {"0.0012", "0.0012"}, {"=NaN", "NaN"}, {"", ""}} {
		q.answers(x.value, false)
		resp, err := http.Get("http://" + l.Addr().String() + "/api/v1/query?query=x")
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Status string
			Data   struct {
				ResultType string
				Result     []struct{ Value []any }
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || answer.Status != "success" || answer.Data.ResultType != "vector" {
			t.Fatalf("%q: %+v, %v", x.value, answer, err)
		}
		got := ""
		if len(answer.Data.Result) == 1 {
			got, _ = answer.Data.Result[0].Value[1].(string)
		}
		if !strings.HasPrefix(got, x.want) || (got == "") != (x.want == "") {
			t.Errorf("%q is answered with %q", x.value, got)
		}
	}
}
