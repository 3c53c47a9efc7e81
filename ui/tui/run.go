package tui

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
)

// Following is a Backend whose events can be followed.
type Following interface {
	api.Backend
	// Events calls each with every event after the one numbered since, until ctx ends or the
	// stream does.
	Events(ctx context.Context, since uint64, each func(plan.Event) error) error
}

// Run shows what b tells on a terminal until the user or ctx ends it. first is what b said when
// it was asked first.
func Run(ctx context.Context, b Following, o Options, first api.Status, in io.Reader, out io.Writer,
	environ []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := New(o, wantWidth, wantHeight)
	m.Take(Seen{Status: first, At: time.Now()})
	p := tea.NewProgram(&program{Model: m, ctx: ctx, b: b}, tea.WithContext(ctx), tea.WithInput(in),
		tea.WithOutput(out),
		tea.WithEnvironment(environ), tea.WithoutSignalHandler(), tea.WithFPS(10),
		tea.WithWindowSize(wantWidth, wantHeight))
	go follow(ctx, b, func(events []plan.Event) { p.Send(Happened(events)) })
	_, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// again is how long is waited before events are asked for again.
const again = time.Second

// follow tells events as they come, those of the last while first, also over restarts of the daemon.
func follow(ctx context.Context, b Following, tell func([]plan.Event)) {
	since := uint64(0)
	for ctx.Err() == nil {
		h, err := b.History(ctx, api.HistoryQuery{Limit: keepEvents})
		if err == nil {
			if n := len(h.Events); n > 0 {
				since = h.Events[n-1].Seq
				tell(h.Events)
			}
			_ = b.Events(ctx, since, func(e plan.Event) error {
				tell([]plan.Event{e})
				return nil
			})
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// program is a Model as bubbletea has it.
type program struct {
	*Model
	ctx context.Context
	b   Following
}

type lookAgain struct{}

// do makes a request beside the screen.
func (p *program) do(ask Ask) tea.Cmd {
	if ask == nil {
		return nil
	}
	return func() tea.Msg { return ask(p.ctx, p.b) }
}

func (p *program) Init() tea.Cmd {
	return tea.Batch(p.do(MayChange), p.do(Measured), p.later())
}

func (p *program) later() tea.Cmd {
	return tea.Tick(p.o.Every, func(time.Time) tea.Msg { return lookAgain{} })
}

func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.Resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		ask := p.Key(msg.String())
		if p.Quit {
			return p, tea.Quit
		}
		return p, p.do(ask)
	case lookAgain:
		if p.Paused() {
			return p, p.later()
		}
		return p, p.do(Look)
	case Seen:
		back := p.lost != nil && msg.Err == nil
		p.Take(msg)
		if back { // it may be another
			return p, tea.Batch(p.do(MayChange), p.do(Measured), p.later())
		}
		return p, p.later()
	default:
		p.Take(msg)
	}
	return p, nil
}

func (p *program) View() tea.View {
	v := tea.NewView(p.Frame())
	v.AltScreen = true
	return v
}
