package decide

import "github.com/cedar-policy/cedar-go/types"

func (d *derivation) command(v types.Value, base, at string, all []member) {}
