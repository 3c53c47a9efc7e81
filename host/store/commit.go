package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
)

// Commit writes all of b or nothing: it is on disk when Commit returns. What it costs
// depends on b, not on what the store holds.
func (s *Store) Commit(b plan.Batch) error {
	if b.Empty() {
		return nil
	}
	return s.update("write to the store", func(tx *bolt.Tx) error {
		for _, c := range []struct {
			table []byte
			any   bool
			put   func(*table) error
		}{
			{bucketJournal, len(b.Entries) > 0, func(t *table) error { return t.putEntries(b.Entries) }},
			{bucketLedger, b.Placements != nil, func(t *table) error { return t.put(keyPlacements, b.Placements) }},
			{bucketMoves, len(b.Moves) > 0, func(t *table) error { return t.putMoves(b.Moves, s.keepMoves) }},
			{bucketHistory, len(b.Events) > 0, func(t *table) error { return t.putEvents(b.Events, s.keepEvents) }},
			{bucketValues, len(b.Values) > 0, func(t *table) error { return t.putValues(b.Values) }},
		} {
			if !c.any {
				continue
			}
			t, err := openTable(tx, c.table)
			if err == nil {
				err = c.put(t)
			}
			if err == nil {
				err = t.save()
			}
			if err != nil {
				return err
			}
		}
		return s.keepApart(tx, b.Events)
	})
}

// keepApart puts the steps and the orders among events into buckets of their own. All
// events have passed those, so that what an older version wrote meanwhile is known.
func (s *Store) keepApart(tx *bolt.Tx, events []plan.Event) error {
	if len(events) == 0 {
		return nil
	}
	for _, part := range []struct {
		table []byte
		most  int
		kinds []plan.EventKind
	}{
		{bucketSteps, s.keepSteps, []plan.EventKind{plan.EventStep, plan.EventMove, plan.EventUndo}},
		{bucketOrders, s.keepOrders, []plan.EventKind{plan.EventOrder}},
	} {
		t, err := openTable(tx, part.table)
		if err != nil {
			return err
		}
		var of []plan.Event
		for i := range events {
			if slices.Contains(part.kinds, events[i].Kind) {
				of = append(of, events[i])
			}
		}
		if err := t.addEvents(of); err != nil {
			return err
		}
		if err := t.trim(part.most); err != nil {
			return err
		}
		t.Last = max(t.Last, events[len(events)-1].Seq)
		if err := t.save(); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) putEntries(entries []plan.Entry) error {
	for _, e := range entries {
		var err error
		switch {
		case e.Seq == 0:
			err = errors.New("it has no number")
		case e.State == plan.Intended, e.State == plan.Applied, e.State == plan.Failed:
			err = t.put(key(e.Seq), e)
		case e.State == plan.Restored, e.State == plan.Gone:
			err = t.delete(key(e.Seq))
		default:
			err = fmt.Errorf("no state %q", e.State)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", e.Seq, err)
		}
		t.Last = max(t.Last, e.Seq)
	}
	return nil
}

// putMoves keeps the newest record of each workload. The oldest finished moves make
// room when there are more than keep, and some more, so that this is rare.
func (t *table) putMoves(moves []plan.Move, keep int) error {
	for _, m := range moves {
		if m.Workload == "" {
			return errors.New("a move names no workload")
		}
		if err := t.put([]byte(m.Workload), m); err != nil {
			return fmt.Errorf("move of %s: %w", m.Workload, err)
		}
	}
	if t.Count <= keep+keep/8 {
		return nil
	}
	var all []plan.Move
	err := t.bucket.ForEach(func(k, v []byte) error {
		text, _, err := unseal(t.name, k, v)
		if err != nil {
			return err
		}
		all = append(all, plan.Move{})
		return json.Unmarshal(text, &all[len(all)-1])
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(x, y plan.Move) int { return x.Started.Compare(y.Started) })
	for _, old := range all {
		if t.Count <= keep {
			break
		}
		now := slices.ContainsFunc(moves, func(m plan.Move) bool { return m.Workload == old.Workload })
		if now || old.State == "running" || old.State == "paused" {
			continue
		}
		if err := t.delete([]byte(old.Workload)); err != nil {
			return err
		}
	}
	return nil
}

// putEvents adds events to the history. The oldest make room.
func (t *table) putEvents(events []plan.Event, keep int) error {
	if err := t.addEvents(events); err != nil {
		return err
	}
	for c := t.bucket.Cursor(); t.Count > keep; {
		oldest, _ := c.First()
		if err := t.delete(bytes.Clone(oldest)); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) addEvents(events []plan.Event) error {
	t.bucket.FillPercent = 0.9 // only ever added to at the end
	for _, e := range events {
		if e.Seq == 0 {
			return errors.New("event: it has no number")
		}
		t.Last = max(t.Last, e.Seq)
		if err := t.put(key(e.Seq), e); err != nil {
			return fmt.Errorf("event: %w", err)
		}
	}
	return nil
}

func (t *table) putValues(values map[string]any) error {
	for key, v := range values {
		if err := t.put([]byte(key), v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
