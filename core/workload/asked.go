package workload

// Word says who made a wish.
type Word string

// Words.
const (
	// Unsaid: the wish was not made, or its source vouches for it: the cluster's scheduler for the
	// CPU request of a pod, a hypervisor's manager for the size of a guest.
	Unsaid Word = ""
	// Operator: a rule, a flavor, or a wish that a grant of the configuration allows.
	Operator Word = "operator"
	// Own: the party responsible for the workload: the author of a pod, a user. One ceiling covers
	// all such wishes (core/control/scene/ceiling.go).
	Own Word = "own"
)

// Asked records who made each wish of a Spec. The zero value is a Spec that no party made for itself.
type Asked struct {
	Class      Word `json:"class,omitempty"`
	Tier       Word `json:"tier,omitempty"`
	Importance Word `json:"importance,omitempty"`
	Near       Word `json:"near,omitempty"`
	CPUs       Word `json:"cpus,omitempty"`
	Memory     Word `json:"memory,omitempty"`
}

// AllOwn is a Spec of which the party responsible made every wish.
var AllOwn = Asked{Class: Own, Tier: Own, Importance: Own, Near: Own, CPUs: Own, Memory: Own}

// Origin is the party responsible for a workload, and who made its wishes.
type Origin struct {
	Owner Owner `json:"owner,omitempty"`
	Asked Asked `json:"asked,omitzero"`
}

// Bounded reports whether the ceiling of its owner covers some wish.
func (o Origin) Bounded() bool {
	return o.Owner != SystemOwner && (o.Asked.Class == Own || o.Asked.CPUs == Own || o.Asked.Memory == Own)
}

// NamespaceOwner returns the owner for the pods of a namespace of Kubernetes together: what one
// pod may hold, its author could have a hundred times by a hundred pods.
func NamespaceOwner(namespace string) Owner { return Owner(namespacePrefix + namespace) }

const namespacePrefix = "namespace:"
