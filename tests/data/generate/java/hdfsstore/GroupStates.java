package hdfsstore;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.GroupState;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;

/** flatMapGroupsWithState over rows (k, ts, n, d): a bean as state, event-time timeouts. */
public final class GroupStates {
  private GroupStates() {}

  /** The state of a key: a primitive, a string that may be null, and a list. */
  public static class Totals implements java.io.Serializable {
    private long rows;
    private String last;
    private List<Integer> seen = new ArrayList<>();

    public long getRows() { return rows; }
    public void setRows(long rows) { this.rows = rows; }
    public String getLast() { return last; }
    public void setLast(String last) { this.last = last; }
    public List<Integer> getSeen() { return seen; }
    public void setSeen(List<Integer> seen) { this.seen = seen; }
  }

  public static Dataset<Row> count(Dataset<Row> events) {
    MapFunction<Row, String> key = row -> row.isNullAt(0) ? "null" : row.getString(0);
    FlatMapGroupsWithStateFunction<String, Row, Totals, String> update = GroupStates::update;
    return events
        .groupByKey(key, Encoders.STRING())
        .flatMapGroupsWithState(
            update, OutputMode.Update(), Encoders.bean(Totals.class), Encoders.STRING(),
            GroupStateTimeout.EventTimeTimeout())
        .toDF();
  }

  private static Iterator<String> update(String key, Iterator<Row> rows, GroupState<Totals> state) {
    if (state.hasTimedOut()) {
      state.remove();
      return Arrays.asList(key + " timed out").iterator();
    }
    Totals totals = state.exists() ? state.get() : new Totals();
    List<Integer> seen = new ArrayList<>(totals.getSeen());
    while (rows.hasNext()) {
      Row row = rows.next();
      totals.setRows(totals.getRows() + 1);
      if (!row.isNullAt(2)) {
        seen.add(row.getInt(2));
        totals.setLast("n=" + row.getInt(2));
      }
    }
    totals.setSeen(seen);
    state.update(totals);
    if (!key.equals("bb")) { // one key without a timeout
      state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 120000);
    }
    return Arrays.asList(key + " " + totals.getRows()).iterator();
  }
}
