package sharing

import "testing"

func TestLook(t *testing.T) {}
