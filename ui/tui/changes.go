package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// toKey types the nodes of a move, and asks what it would do.
func (m *Model) toKey(key string) Ask {
	switch key {
	case "esc":
		m.to = nil
	case "enter":
		nodes, err := topology.ParseNodeSet(*m.to)
		m.to = nil
		if err == nil && nodes.Empty() {
			err = errors.New("no node was named")
		}
		if err != nil {
			m.tell(err)
			return nil
		}
		m.asking = "asking what the move would do"
		return offerMove(api.MoveOrder{ID: m.chosen, To: nodes})
	default:
		to := typed(*m.to, key)
		m.to = &to
	}
	return nil
}

// answer is y or n to a question.
func (m *Model) answer(key string) Ask {
	do := m.do
	m.question, m.do = nil, nil
	if key != "y" && key != "Y" {
		m.notice = "nothing was changed"
		return nil
	}
	m.asking = "the daemon is at it"
	return do
}

// change begins a change: a question first.
func (m *Model) change(key string) Ask {
	w := m.workload()
	switch {
	case !m.have:
		return nil
	case !m.allowed:
		m.tell(errors.New("this daemon lets you look, not change: start top as root or as a member of the " +
			"socket's group"))
		return nil
	case w == nil && key != "U" && key != "R":
		m.tell(errors.New("no workload is chosen"))
		return nil
	case key == "x" && !slices.Contains([]string{api.StateMoving, api.StatePaused, api.StateQueued}, w.State):
		m.tell(fmt.Errorf("%s has no page move that could be stopped", m.name(w)))
		return nil
	case (key == "m" || key == "x") && m.status.Mode != "enforce":
		m.tell(fmt.Errorf("the daemon is in %s mode: it moves nothing", m.status.Mode))
		return nil
	}
	switch key {
	case "m":
		to := ""
		m.to = &to
	case "x":
		m.ask(fmt.Sprintf("Stop the page move of %s, and leave it as it is?", m.o.Label(w)),
			func(ctx context.Context, b api.Backend) any {
				_, err := b.Move(ctx, api.MoveOrder{ID: w.ID, Cancel: true})
				return done{fmt.Sprintf("the move of %s is cancelled; r lets it go on", w.ID), err}
			})
	case "u":
		m.asking = "asking what would be restored"
		return offerUndo(api.Which{ID: w.ID}, m.o.Label(w))
	case "U":
		m.asking = "asking what would be restored"
		return offerUndo(api.Which{All: true}, "every workload")
	case "r":
		m.ask(fmt.Sprintf("Manage %s again?", m.o.Label(w)), resume(api.Which{ID: w.ID}, string(w.ID)))
	case "R":
		m.ask("Manage every workload again?", resume(api.Which{All: true}, "everything"))
	}
	return nil
}

func (m *Model) ask(question string, do Ask) { m.question, m.do = []string{question}, do }

func resume(which api.Which, name string) Ask {
	return func(ctx context.Context, b api.Backend) any {
		_, err := b.Resume(ctx, which)
		return done{name + " is managed again", err}
	}
}

// offerMove asks what a move would do.
func offerMove(order api.MoveOrder) Ask {
	return func(ctx context.Context, b api.Backend) any {
		dry := order
		dry.DryRun = true
		a, err := b.Move(ctx, dry)
		if err != nil {
			return offered{err: err}
		}
		if a.Outcome == plan.Kept {
			return done{fmt.Sprintf("%s is on %s already", a.Workload, words.Nodes(a.To)), nil}
		}
		text := []string{fmt.Sprintf("Move %s from %s to %s?", a.Workload, words.Nodes(a.From), words.Nodes(a.To))}
		for _, s := range a.Steps {
			if s.Kind == plan.MovePages && s.Bytes > 0 {
				text = append(text, fmt.Sprintf("%s of its memory would move, in %.0f s or more.", words.Bytes(s.Bytes),
					s.Cost.Seconds))
			}
		}
		return offered{text: text, do: func(ctx context.Context, b api.Backend) any {
			_, err := b.Move(ctx, order)
			return done{fmt.Sprintf("%s goes to %s", a.Workload, words.Nodes(a.To)), err}
		}}
	}
}

// offerUndo asks what an undo would restore.
func offerUndo(which api.Which, name string) Ask {
	return func(ctx context.Context, b api.Backend) any {
		dry := which
		dry.DryRun = true
		u, err := b.Undo(ctx, dry)
		if err != nil {
			return offered{err: err}
		}
		text := []string{fmt.Sprintf("Undo %s? %s would have their old values again.", name,
			words.Count(len(u.Restored), "setting")),
			"Homenode then leaves it alone until you resume it (r; R for all)."}
		if which.All {
			text[1] = "Nothing is managed then until you resume it (R)."
		}
		return offered{text: text, do: func(ctx context.Context, b api.Backend) any {
			u, err := b.Undo(ctx, which)
			if err == nil && len(u.Failed)+len(u.Deferred) > 0 {
				err = fmt.Errorf("%s restored, %s not; `homenode history` says why",
					words.Count(len(u.Restored), "setting"), words.Count(len(u.Failed)+len(u.Deferred), "other"))
			}
			return done{fmt.Sprintf("%s restored; %s is left alone", words.Count(len(u.Restored), "setting"), name),
				err}
		}}
	}
}

func explain(id workload.ID) Ask {
	return func(ctx context.Context, b api.Backend) any {
		x, err := b.Explain(ctx, id)
		return explained{id, x, err}
	}
}

// Look asks for the status.
func Look(ctx context.Context, b api.Backend) any {
	s, err := b.Status(ctx)
	return Seen{s, err, time.Now()}
}

// MayChange asks whether this user may change something, with an order that names nothing.
func MayChange(ctx context.Context, b api.Backend) any {
	_, err := b.Move(ctx, api.MoveOrder{DryRun: true, Cancel: true})
	refused := (*api.Error)(nil)
	return Allowed(errors.As(err, &refused) && refused.Code != api.Forbidden)
}

// Measured asks what the memory of each node can deliver.
func Measured(ctx context.Context, b api.Backend) any {
	out := Bandwidths{}
	rooms, ok := b.(api.RoomSource)
	if !ok {
		return out
	}
	if r, err := rooms.Room(ctx, ""); err == nil && r.Host != nil && r.Host.Measured != nil {
		for i := range r.Host.Nodes {
			if all := r.Host.Measured.BandwidthMiBs; i < len(all) && i < len(all[i]) {
				out[r.Host.Nodes[i].ID] = all[i][i]
			}
		}
	}
	return out
}
