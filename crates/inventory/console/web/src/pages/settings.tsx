// What a person chooses for this browser.
import { useState } from "react";
import { Button } from "react-aria-components/Button";
import { Label, Radio, RadioGroup } from "react-aria-components/RadioGroup";
import { signOut } from "../api/client";
import { Section } from "../ui/atoms";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { type Density, type Theme, useDensity, useTheme } from "../ui/preferences";

const KEYS: [keys: string[], meaning: string][] = [
  [["/", "Ctrl K"], "Search, or go to a page"],
  [["↑", "↓"], "Move between rows"],
  [["Page Up", "Page Down", "Home", "End"], "Move by screens, to the first and to the last row"],
  [["Enter"], "Open the row"],
  [["→", "←"], "Move to the links of a row and back"],
  [["Esc"], "Close a menu or the search"],
];

export function SettingsPage() {
  useTitle("Settings");
  const [theme, setTheme] = useTheme();
  const [density, setDensity] = useDensity();
  const [failed, setFailed] = useState<string | null>(null);
  return (
    <ScrollArea className="page">
      <header className="page-head">
        <Heading>Settings</Heading>
      </header>
      <div className="settings">
        <Section title="Look" note="kept in this browser">
          <Choices<Theme>
            label="Theme"
            value={theme}
            onChange={setTheme}
            options={[
              ["system", "As the system"],
              ["light", "Light"],
              ["dark", "Dark"],
            ]}
          />
          <Choices<Density>
            label="Rows"
            value={density}
            onChange={setDensity}
            options={[
              ["comfortable", "Comfortable"],
              ["compact", "Compact"],
            ]}
          />
        </Section>
        <Section title="Keys">
          <dl className="keys">
            {KEYS.map(([keys, meaning]) => (
              <div key={meaning}>
                <dt>
                  {keys.map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
        </Section>
        <Section title="Session">
          <p>A session lasts 12 hours and belongs to this browser.</p>
          <Button
            className="button"
            onPress={() => {
              signOut().catch((error: unknown) => setFailed(error instanceof Error ? error.message : String(error)));
            }}
          >
            Sign out
          </Button>
          {failed !== null && <p role="alert">Could not sign out: {failed}.</p>}
        </Section>
      </div>
    </ScrollArea>
  );
}

interface ChoicesProps<T extends string> {
  label: string;
  value: T;
  onChange(value: T): void;
  options: [value: T, text: string][];
}

function Choices<T extends string>({ label, value, onChange, options }: ChoicesProps<T>) {
  return (
    <RadioGroup className="choices" value={value} onChange={(next) => onChange(next as T)} orientation="horizontal">
      <Label>{label}</Label>
      <div className="segments">
        {options.map(([option, text]) => (
          <Radio key={option} value={option} className="segment">
            {text}
          </Radio>
        ))}
      </div>
    </RadioGroup>
  );
}
