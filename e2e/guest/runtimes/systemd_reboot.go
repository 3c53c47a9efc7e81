//go:build linux

package runtimes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Where the test that restarts the machine keeps what outlives it. The daemon's state is on this disk, too.
const (
	stateDisk   = "/srv"
	trialFolder = stateDisk + "/trial"
	stageFile   = stateDisk + "/stage"
	clockFile   = stateDisk + "/clock"
)

const trialBlocks = 8

// stateUnit mounts the disk before the daemon starts. There is no udev, so that a mount unit would wait for its device.
const stateUnit = `[Unit]
Before=homenode.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/mount /dev/vdc /srv
ExecStart=/usr/bin/mkdir -p -m 0750 /srv/state /var/lib/homenode
ExecStart=/usr/bin/mount --bind /srv/state /var/lib/homenode
ExecStart=/bin/sh -c '[ ! -e /srv/clock ] || date -s @$(cat /srv/clock)'
[Install]
WantedBy=multi-user.target
`

// systemdReboot restarts the machine in the midst of a period of `homenode trial`: once as `systemctl reboot` does
// it, and once as a power cut does it, after which the clock is wrong. Each time the machine comes up with
// the settings of before the trial, and the same command goes on with the trial.
func systemdReboot(t *lab.T) {
	stage := 0
	if text := lab.ReadText(stageFile); text != "" {
		stage, _ = strconv.Atoi(text)
	} else {
		installForReboots(t)
	}
	t.Logf("boot %d, boot ID %s", stage+1, lab.ReadText("/proc/sys/kernel/random/boot_id"))
	t.OnFailure(func() {
		read := []string{"journalctl", "--no-pager", "-o", "cat", "-u", "homenode", "-u", "state-disk", "-u", "trial"}
		log := lab.Capture(read, "")
		t.LogLines("journal", log.Out, 40)
		t.LogLines("history", lab.Capture([]string{Installed, "history", "--limit", "25"}, "").Out, 25)
	})
	Answers(t, "")
	db := serve(t, "system.slice", "db", "--slot 1 --mib 64 --threads 2 --place bind:1 --unbind")
	if stage > 0 {
		asBeforeTrial(t, stage)
	}
	awaitSet(t, db, func(cpus string) bool { return cpus != "" })
	if stage > 0 {
		asBeforeTrial(t, stage)
	}
	had := len(readTrial(t).Periods)
	command := []string{"systemd-run", "-q", "--unit=trial", "-p", "Restart=on-failure"}
	command = append(command, Installed, "trial", "--out", trialFolder)
	if stage == 0 {
		command = append(command, "--arms", "off,balancing,on", "--blocks", strconv.Itoa(trialBlocks), "--seed", "1")
		command = append(command, "--period", "4s", "--every", "500ms", "--washout", "1s")
	}
	t.Command(command...)

	if stage == 2 {
		t.Poll(5*time.Minute, time.Second, "the trial is over", func() (bool, string) {
			return readTrial(t).State != "running", fmt.Sprintf("%d periods", len(readTrial(t).Periods))
		})
		wholeTrial(t)
		return
	}
	what := "a block more was measured, and the arm balancing stands"
	t.Poll(90*time.Second, 100*time.Millisecond, what, func() (bool, string) {
		periods := len(readTrial(t).Periods)
		now := lab.ReadText(lab.BalancingFile) + lab.ReadText(db+"/cpuset.cpus")
		return periods >= had+4 && now == "1", fmt.Sprintf("%d periods, %d before; %q", periods, had, now)
	})
	leave(t, stage+1)
}

// installForReboots has the daemon start at boot, with its state on the disk that stays whole.
func installForReboots(t *lab.T) {
	Install(t)
	const units = "/etc/systemd/system/"
	// As docs/trial.md says, so that the arm balancing can be switched.
	const trialUnit = "[Unit]\nRequires=state-disk.service\n[Service]\nCapabilityBoundingSet=CAP_SYS_ADMIN\n"
	for name, text := range map[string]string{
		"state-disk.service":            stateUnit,
		"homenode.service.d/trial.conf": trialUnit,
		// The end of the tests powers the machine off; that by a restart does not.
		"e2e.service.d/reboot.conf": "[Service]\nExecStopPost=\n",
	} {
		t.Do(os.MkdirAll(filepath.Dir(units+name), 0o755))
		t.Do(os.WriteFile(units+name, []byte(text), 0o644))
	}
	t.Command("systemctl", "daemon-reload")
	t.Command("systemctl", "enable", "--now", "state-disk", "homenode")
}

// leave restarts the machine.
func leave(t *lab.T, stage int) {
	t.Do(os.WriteFile(stageFile, []byte(strconv.Itoa(stage)), 0o644))
	if stage == 1 {
		t.Logf("systemctl reboot")
		t.Command("systemctl", "--no-block", "reboot")
	} else {
		t.Do(os.WriteFile(clockFile, []byte(strconv.FormatInt(time.Now().Add(-2*time.Hour).Unix(), 10)), 0o644))
		for _, name := range []string{stageFile, clockFile} {
			t.Do(exec.Command("sync", name).Run())
		}
		t.Logf("power cut")
		t.Do(lab.WriteText("/proc/sysrq-trigger", "b"))
	}
	select {} // until the machine is gone
}

// asBeforeTrial fails the test unless no trial runs, and the kernel is as at boot.
func asBeforeTrial(t *lab.T, stage int) {
	var s struct {
		Trial *struct{ Arm string }
	}
	t.Do(json.Unmarshal([]byte(t.Command(Installed, "status", "--json")), &s))
	if balancing := lab.ReadText(lab.BalancingFile); s.Trial != nil || balancing != "0" {
		t.Fatalf("after restart %d: trial %+v, kernel.numa_balancing %s", stage, s.Trial, balancing)
	}
}

type trialResult struct {
	State   string
	Notes   []string
	Periods []struct {
		Block    int
		Arm      string
		From, To float64
	}
}

// readTrial reads the result, which is whole at any time.
func readTrial(t *lab.T) (r trialResult) {
	text, err := os.ReadFile(trialFolder + "/trial.json")
	if os.IsNotExist(err) {
		return r
	}
	t.Do(err)
	t.Do(json.Unmarshal(text, &r))
	return r
}

// wholeTrial holds the result against what was asked for: each arm once in each block, one after the other.
func wholeTrial(t *lab.T) {
	r := readTrial(t)
	arms, last := map[string]int{}, 0.0
	for _, p := range r.Periods {
		arms[p.Arm]++
		if p.From < last || p.To <= p.From {
			t.Fatalf("block %d, %s: from %g s to %g s, after %g s", p.Block, p.Arm, p.From, p.To, last)
		}
		last = p.To
	}
	for _, arm := range []string{"off", "balancing", "on"} {
		if r.State != "done" || len(arms) != 3 || arms[arm] != trialBlocks {
			t.Fatalf("the trial is %s with periods %v", r.State, arms)
		}
	}
	restarts := 0
	for _, note := range r.Notes {
		if strings.Contains(note, "restart") {
			restarts++
		}
	}
	files, err := filepath.Glob(trialFolder + "/.trial*")
	t.Do(err)
	if restarts != 2 || len(files) > 0 {
		t.Fatalf("the result notes %d restarts of 2: %q; files left: %q", restarts, r.Notes, files)
	}
	t.Textf("restarted twice, %d periods of each arm", trialBlocks)
}
