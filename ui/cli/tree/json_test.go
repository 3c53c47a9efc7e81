package tree

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every schema that a --json flag names is on the page that says what its fields are.
func TestSchemasAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	schema := regexp.MustCompile(`homenode-[a-z-]+/[0-9]+`)
	named := 0
	everyCommand(func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, name := range schema.FindAllString(f.Usage, -1) {
				named++
				if !strings.Contains(string(page), "\n## "+name+"\n") {
					t.Errorf("%s --%s: %s is not in docs/json.md", c.CommandPath(), f.Name, name)
				}
			}
		})
	})
	if named < 20 {
		t.Errorf("%d schemas found in the help texts; there are more", named)
	}
}
