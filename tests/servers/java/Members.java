import com.hazelcast.config.Config;
import com.hazelcast.config.JoinConfig;
import com.hazelcast.config.NetworkConfig;
import com.hazelcast.core.Hazelcast;

/**
 * Starts members of a cluster in one process: cluster name, number of CP members, time to live of
 * a session in seconds, ports of the members to be started, the ports at which others reach these,
 * and those at which all are reached, by commas.
 */
public class Members {
    public static void main(String[] arguments) {
        int ttl = Integer.parseInt(arguments[2]);
        String[] own = arguments[3].split(",");
        String[] reached = arguments[4].split(",");
        String[] all = arguments[5].split(",");
        for (int number = 0; number < own.length; number++) {
            Config config = new Config();
            config.setClusterName(arguments[0]);
            config.setProperty("hazelcast.phone.home.enabled", "false");
            config.setProperty("hazelcast.logging.type", "jdk");
            config.setProperty("hazelcast.shutdownhook.policy", "TERMINATE");
            config.setProperty("hazelcast.max.no.heartbeat.seconds", "10");
            config.setProperty("hazelcast.heartbeat.interval.seconds", "1");
            config.setProperty("hazelcast.wait.seconds.before.join", "0");
            config.setProperty("hazelcast.max.wait.seconds.before.join", "0");
            config.setProperty("hazelcast.merge.first.run.delay.seconds", "2");
            config.setProperty("hazelcast.merge.next.run.delay.seconds", "2");
            config.setProperty("hazelcast.io.thread.count", "2");
            config.setProperty("hazelcast.operation.thread.count", "2");
            config.setProperty("hazelcast.operation.generic.thread.count", "2");
            config.getMetricsConfig().setEnabled(false);
            config.getJetConfig().setEnabled(false);
            NetworkConfig network = config.getNetworkConfig();
            network.setPort(Integer.parseInt(own[number])).setPortAutoIncrement(false);
            network.getInterfaces().setEnabled(true).addInterface("127.0.0.1");
            network.setPublicAddress("127.0.0.1:" + reached[number]);
            JoinConfig join = network.getJoin();
            join.getAutoDetectionConfig().setEnabled(false);
            join.getMulticastConfig().setEnabled(false);
            join.getTcpIpConfig().setEnabled(true).setConnectionTimeoutSeconds(2);
            for (String other : all) {
                join.getTcpIpConfig().addMember("127.0.0.1:" + other);
            }
            config.getCPSubsystemConfig()
                    .setCPMemberCount(Integer.parseInt(arguments[1]))
                    .setSessionTimeToLiveSeconds(ttl)
                    .setSessionHeartbeatIntervalSeconds(Math.max(1, Math.min(5, ttl / 3)))
                    .setMissingCPMemberAutoRemovalSeconds(0);
            config.getCPSubsystemConfig().getRaftAlgorithmConfig()
                    .setLeaderElectionTimeoutInMillis(500)
                    .setLeaderHeartbeatPeriodInMillis(500)
                    .setMaxMissedLeaderHeartbeatCount(8);
            new Thread(() -> Hazelcast.newHazelcastInstance(config)).start();
        }
    }
}
