package main

import (
	"strings"
	"time"
)

// answerWithin is far more than a look takes, for a loaded machine.
const answerWithin = time.Minute

func contains(s, sub string) bool { return strings.Contains(s, sub) }

func pause() { time.Sleep(50 * time.Millisecond) }
