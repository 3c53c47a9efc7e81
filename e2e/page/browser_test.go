package page

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long anything may take on a machine that is busy.
const patience = 2 * time.Minute

var pictures = flag.String("pictures", "", "folder to write pictures of the page into")

// browser is a chromium without a screen; nil when there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	var found string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			found = at
			break
		}
	}
	if found == "" {
		t.Skip("no chromium on this machine")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// seen is what a tab has complained of, and what it has asked for.
type seen struct {
	mu    sync.Mutex
	wrong []string
	asked []string
	bytes float64
}

// watch listens to the tab of ctx.
func watch(ctx context.Context) *seen {
	s := &seen{}
	chromedp.ListenTarget(ctx, func(ev any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			s.wrong = append(s.wrong, ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
				for _, a := range ev.Args {
					s.wrong = append(s.wrong, string(a.Value))
				}
			}
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.LevelError || ev.Entry.Level == log.LevelWarning {
				s.wrong = append(s.wrong, ev.Entry.Text+" "+ev.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			s.asked = append(s.asked, ev.Request.URL)
		}
	})
	return s
}

// within fails unless what a script says becomes true.
func within(t *testing.T, ctx context.Context, what, script string) {
	t.Helper()
	var last bool
	until := time.Now().Add(patience)
	for !last {
		if err := chromedp.Run(ctx, chromedp.Evaluate(script, &last)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !last && time.Now().After(until) {
			t.Fatalf("%s: not within %v: %s", what, patience, script)
		}
		if !last {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func eval[T any](t *testing.T, ctx context.Context, script string) (v T) {
	t.Helper()
	if err := chromedp.Run(ctx, chromedp.Evaluate(script, &v)); err != nil {
		t.Fatalf("%v: %s", err, script)
	}
	return v
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "homenode-page")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "homenode")
	build := exec.Command("go", "build", "-o", program, "./cmd/homenode")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if program, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// demo runs `homenode demo` and returns the link to its page and its socket.
func demo(t *testing.T, args ...string) (link, socket string) {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, append([]string{"demo"}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`^  (http\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			link = m[1]
		}
		if m := regexp.MustCompile(`--socket (\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			socket = m[1]
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	if link == "" || socket == "" {
		t.Fatal("the demo names no page")
	}
	go io.Copy(io.Discard, out)
	return link, socket
}

// look opens a page at a size, in light or dark colours, and waits until it is live.
func look(t *testing.T, ctx context.Context, link string, width, height int64, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if err := chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetDeviceMetricsOverride(width, height, 1, width < 600),
		chromedp.Navigate(link)); err != nil {
		t.Fatal(err)
	}
	within(t, ctx, "live", `document.getElementById('live').textContent === 'live' && document.querySelectorAll('#picture .tile').length > 0`)
}

// shot writes a picture of the whole page, where pictures are asked for.
func shot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	var png []byte
	if err := chromedp.Run(ctx, chromedp.Sleep(1200*time.Millisecond), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
		return err
	})); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// fine fails for whatever a tab has complained of, or asked of anybody else.
func (s *seen) fine(t *testing.T, link string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wrong {
		t.Errorf("the console says: %s", w)
	}
	for _, url := range s.asked {
		if !strings.HasPrefix(url, link) {
			t.Errorf("asked for %s", url)
		}
	}
	if !slices.ContainsFunc(s.asked, func(u string) bool { return strings.HasSuffix(u, "/v1/house/changes") }) {
		t.Errorf("asked for %q only", s.asked)
	}
}
