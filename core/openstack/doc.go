// Package openstack says in the words of OpenStack Nova what homenode knows of a host and
// of its flavors: settings of nova-compute, traits for Placement, properties of flavors.
//
// Words: Nova's. cpu_dedicated_set and cpu_shared_set are the two sides of a partition
// without the reserved CPUs; a trait is a name that a host has and a flavor may require.
//
// Source: nova/conf/compute.py, nova/compute/provider_config.py and
// nova/api/validation/extra_specs of Nova 34; integrations/openstack tests what is written
// here with Nova itself.
//
// Not in here: files, and asking an OpenStack.
package openstack
