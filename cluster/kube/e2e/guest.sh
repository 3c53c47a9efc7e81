#!/bin/sh
# The first program of the guest that TestGuest boots, on the second disk. It brings up the network: the API server of
# the machine outside is 10.96.0.1:443 for pods, as its Service is. Then it runs what comes down the second serial line,
# a command a line, and says END and the status after each.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
busybox --install -s /usr/bin 2>/dev/null
for m in failover net_failover virtio_net; do insmod /e2e/$m.ko; done
ip link set lo up
ip addr add 10.96.0.1/32 dev lo
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
hostname n1
# Pods use the host's network; any network plugin will do.
mkdir -p /etc/cni/net.d
echo '{"cniVersion":"1.0.0","name":"none","plugins":[{"type":"loopback"}]}' >/etc/cni/net.d/10-none.conflist
HOMENODE_KUBE_FORWARD=$(cat /e2e/forward) /e2e/kube.test &
exec 3<>/dev/ttyS1 # once: the last close throws away what has come
stty raw -echo <&3
echo up >&3
while read -r line <&3; do
	eval "$line" </dev/null >&3 2>&1
	echo "END $?" >&3
done
