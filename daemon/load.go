package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// load reads all that an earlier daemon left, but for the history.
func load(s Store) (v control.Saved, err error) {
	read := func(key string, into any) {
		if err == nil {
			_, err = s.Load(key, into)
		}
	}
	if v.Journal, err = s.Journal(); err == nil {
		v.Seq, err = s.LastSeq()
	}
	if err == nil {
		v.Events, err = newestEvent(s)
	}
	if err == nil {
		v.Placements, err = s.Placements()
	}
	if err == nil {
		v.Moves, err = s.Moves()
	}
	read(control.KeyHolds, &v.Holds)
	read(control.KeyChosen, &v.Chosen)
	read(control.KeyPast, &v.Past)
	read(control.KeyPartition, &v.Partition)
	read(control.KeySharing, &v.Sharing)
	read(control.KeyGoals, &v.Sharing.Learned)
	read(control.KeyScheduler, &v.Scheduler)
	read(control.KeyUndoing, &v.Undoing)
	read(control.KeyTheirs, &v.Theirs)
	read(control.KeyTrial, &v.Trial)
	admissions := map[workload.ID]json.RawMessage{}
	read(control.KeyAdmissions, &admissions)
	if err == nil {
		v.Admissions, err = readAdmissions(admissions, v.Placements)
	}
	return v, err
}

// newestEvent is its number, 0 for none.
func newestEvent(s Store) (uint64, error) {
	last, err := s.History(plan.EventQuery{Limit: 1})
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return last[0].Seq, nil
}

// readAdmissions reads what was saved of `homenode run`, also as versions saved it that
// kept no more than what was asked for: its home is in the ledger.
func readAdmissions(saved map[workload.ID]json.RawMessage,
	ledger []plan.Placement) (map[workload.ID]control.Admission, error) {
	out := make(map[workload.ID]control.Admission, len(saved))
	for id, text := range saved {
		var a control.Admission
		err := json.Unmarshal(text, &a)
		if err == nil && a.Spec.Class == "" {
			var want api.Want
			err = json.Unmarshal(text, &want)
			if asked, bad := placeRequest(&want); err == nil && bad == nil {
				a = control.Admission{Spec: asked.Spec, Process: want.Process}
			} else {
				err = cmp.Or(err, bad)
			}
			a.Spec.ID = id
			if p := place.Of(ledger, id); p != nil && p.Start == a.Process.Start {
				a.Placement = *p
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read the home of %s: %w", id, err)
		}
		out[id] = a
	}
	return out, nil
}

// sinceBoot voids what a restart of the machine has undone by itself.
func (d *Daemon) sinceBoot(v control.Saved) (control.Saved, error) {
	var boot, version string
	known, err := d.o.Store.Load(keyBoot, &boot)
	if err == nil {
		_, err = d.o.Store.Load(plan.KeyVersion, &version)
	}
	if err != nil || (known && boot == d.o.BootID && version == d.o.Version) {
		return v, err
	}
	var b plan.Batch
	if known && boot != d.o.BootID {
		v, b = v.AfterBoot(d.o.Clock.Now(), func(kind plan.SettingKind) bool {
			driver := d.owners[kind]
			return driver != nil && driver.SurvivesBoot(kind)
		})
	}
	if b.Values == nil {
		b.Values = map[string]any{}
	}
	b.Values[keyBoot], b.Values[plan.KeyVersion] = d.o.BootID, d.o.Version
	return v, d.o.Store.Commit(b)
}
